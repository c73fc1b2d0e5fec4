# Test programs are compiled to be there soon rather than to be fast, since most
# of a build from nothing is theirs. What they test is compiled as ever.
find_package(GTest REQUIRED)
include(GoogleTest)

# Headers that they share, read once for all programs.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "")
add_library(fedmrn_test_headers OBJECT EXCLUDE_FROM_ALL
  ${CMAKE_BINARY_DIR}/test_headers.cc)
target_link_libraries(fedmrn_test_headers PRIVATE GTest::gtest)

# As every test program is compiled, which such headers must be, too.
function(fedmrn_test_options target)
  target_compile_options(${target} PRIVATE -O0)
  if(FEDMRN_FUZZ)  # no fuzzer runs them
    target_compile_options(${target} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
endfunction()

function(fedmrn_test_precompile target)
  target_precompile_headers(${target} PRIVATE
    <gtest/gtest.h> <algorithm> <cmath> <filesystem> <fstream> <functional>
    <map> <memory> <numeric> <optional> <random> <span> <sstream> <string>
    <string_view> <thread> <vector>)
endfunction()
fedmrn_test_options(fedmrn_test_headers)
fedmrn_test_precompile(fedmrn_test_headers)

# fedmrn_test_program(TARGET): a program of GoogleTest tests. Its files are
# compiled in large pieces, since they use the same templates.
function(fedmrn_test_program target)
  fedmrn_test_options(${target})
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(shared fedmrn_test_headers COMPILE_OPTIONS)
  if(options STREQUAL shared)
    target_precompile_headers(${target} REUSE_FROM fedmrn_test_headers)
  else()
    fedmrn_test_precompile(${target})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FEDMRN_PIECES})
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main)
endfunction()

# fedmrn_tests(TARGET [arguments of gtest_discover_tests]): finishes such a
# program, of which ctest starts each test on its own.
function(fedmrn_tests target)
  fedmrn_test_program(${target})
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 120 ${ARGN})
endfunction()

# fedmrn_suites(TARGET): ctest starts each suite on its own, since the program
# takes longer to start than most of its tests.
function(fedmrn_suites target)
  fedmrn_test_program(${target})
  set(tests ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D OUT=${tests}
      -P ${PROJECT_SOURCE_DIR}/cmake/suites.cmake
    BYPRODUCTS ${tests} VERBATIM)
  file(CONFIGURE OUTPUT ${tests}.in CONTENT "include(${tests} OPTIONAL)\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${tests}.in)
endfunction()
