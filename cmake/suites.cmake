# cmake -D PROGRAM=... -D OUT=... -P suites.cmake: OUT has one test for each
# suite of PROGRAM, whose start takes longer than most of its tests.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE list
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${list}")
if(NOT suites)
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
set(tests "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "\n|\\.$" "" suite "${suite}")
  string(APPEND tests "add_test([==[${suite}]==] [==[${PROGRAM}]==]"
    " [==[--gtest_filter=${suite}.*]==])\n"
    "set_tests_properties([==[${suite}]==] PROPERTIES COST 10)\n")
endforeach()
file(WRITE ${OUT} "${tests}")
