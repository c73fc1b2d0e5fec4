# cpack -G DEB: the program and its modules, without the libraries and headers
# that cmake --install has. scripts/release calls it.
install(FILES README.md CHANGELOG.md COMPONENT program
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE COMPONENT program
  DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY docs configs COMPONENT program
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_VENDOR "The FedMRN developers")
set(CPACK_PACKAGE_CONTACT "The FedMRN developers")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_THREADS 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# What it links, and modules that are opened when needed link, is found by
# dpkg-shlibdeps; what it calls is named here.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
  "ca-certificates, gnuplot-nox, libopenblas0")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "dataset-fashion-mnist, openmpi-bin")
include(CPack)
