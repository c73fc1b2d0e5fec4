# The target oneDNN::dnnl. dnnl's own package asks for OpenCL as well.
include(FindPackageHandleStandardArgs)
find_library(oneDNN_LIBRARY dnnl)
find_path(oneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
mark_as_advanced(oneDNN_LIBRARY oneDNN_INCLUDE_DIR)
find_package_handle_standard_args(oneDNN
  REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR)
if(oneDNN_FOUND AND NOT TARGET oneDNN::dnnl)
  add_library(oneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(oneDNN::dnnl PROPERTIES
    IMPORTED_LOCATION ${oneDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${oneDNN_INCLUDE_DIR})
endif()
