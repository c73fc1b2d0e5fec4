# cmake --install: the core's public headers, its library and a CMake package.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fedmrn)

install(FILES
  fedmrn/base/bytes.h
  fedmrn/base/check.h
  fedmrn/base/parallel.h
  fedmrn/base/result.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fedmrn/base)
install(FILES
  fedmrn/core/accumulate.h
  fedmrn/core/aggregate.h
  fedmrn/core/codec.h
  fedmrn/core/draws.h
  fedmrn/core/float16.h
  fedmrn/core/frame.h
  fedmrn/core/hadamard.h
  fedmrn/core/layout.h
  fedmrn/core/mask.h
  fedmrn/core/noise.h
  fedmrn/core/philox.h
  fedmrn/core/tile.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fedmrn/core)
install(TARGETS fedmrn_core EXPORT fedmrn-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT fedmrn-targets NAMESPACE fedmrn:: DESTINATION ${package_dir})

configure_package_config_file(cmake/fedmrn-config.cmake.in
  ${PROJECT_BINARY_DIR}/fedmrn-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/fedmrn-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/fedmrn-config.cmake
  ${PROJECT_BINARY_DIR}/fedmrn-config-version.cmake
  DESTINATION ${package_dir})
