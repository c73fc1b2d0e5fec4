# Test programs are compiled to be there soon rather than to be fast, since most
# of a build from nothing is theirs. What they test is compiled as ever.
find_package(GTest REQUIRED)
include(GoogleTest)

# fedmrn_tests(TARGET [arguments of gtest_discover_tests]): finishes a program of
# GoogleTest tests, whose headers all its files share.
function(fedmrn_tests target)
  target_compile_options(${target} PRIVATE -O0)
  if(FEDMRN_FUZZ)  # no fuzzer runs them
    target_compile_options(${target} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_precompile_headers(${target} PRIVATE
    <gtest/gtest.h> <algorithm> <cmath> <filesystem> <fstream> <functional>
    <map> <memory> <numeric> <optional> <random> <span> <sstream> <string>
    <string_view> <thread> <vector>)
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 120 ${ARGN})
endfunction()
