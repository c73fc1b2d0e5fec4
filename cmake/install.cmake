# cmake --install: public headers, libraries and a CMake package. The core is
# for devices; what else there is comes with the program, for programs that
# extend it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fedmrn)

# fedmrn_install_headers(FOLDER HEADER...): of fedmrn/FOLDER.
function(fedmrn_install_headers folder)
  list(TRANSFORM ARGN PREPEND fedmrn/${folder}/ OUTPUT_VARIABLE headers)
  install(FILES ${headers}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fedmrn/${folder})
endfunction()

fedmrn_install_headers(base bytes.h check.h parallel.h result.h)
fedmrn_install_headers(core accumulate.h aggregate.h codec.h draws.h float16.h
  frame.h hadamard.h layout.h magnitude.h mask.h noise.h philox.h random.h tile.h)
install(TARGETS fedmrn_core EXPORT fedmrn-core-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT fedmrn-core-targets NAMESPACE fedmrn::
  DESTINATION ${package_dir})

if(TARGET fedmrn_cli)
  fedmrn_install_headers(base settings.h)
  fedmrn_install_headers(train task.h)
  fedmrn_install_headers(train/data data.h dataset.h)
  fedmrn_install_headers(train/method method.h)
  fedmrn_install_headers(train/model loss.h model.h torchscript.h)
  fedmrn_install_headers(client client.h fault_settings.h states.h)
  fedmrn_install_headers(results confusion.h results.h summary.h)
  fedmrn_install_headers(sim compare.h config.h executor.h grid.h model.h
    partition.h progress.h round.h run.h sampling.h server_optimizer.h workers.h)
  fedmrn_install_headers(cli main.h)
  foreach(part base train client results sim theory report cli)
    add_library(fedmrn::${part} ALIAS fedmrn_${part})
    set_target_properties(fedmrn_${part} PROPERTIES EXPORT_NAME ${part})
    install(TARGETS fedmrn_${part} EXPORT fedmrn-program-targets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
  install(EXPORT fedmrn-program-targets NAMESPACE fedmrn::
    DESTINATION ${package_dir})
  install(FILES cmake/FindoneDNN.cmake DESTINATION ${package_dir})
endif()

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
