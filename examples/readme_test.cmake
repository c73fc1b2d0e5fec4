# The README's code is the example that install_test.cmake compiles and runs.
if(NOT EXISTS ${README})
  message(FATAL_ERROR "${README} is missing")
endif()
file(READ ${README} readme)
file(READ ${EXAMPLE} example)
string(FIND "${readme}" "```cpp\n${example}```\n" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${README} must hold, between ```cpp and ```, exactly "
    "the lines of ${EXAMPLE}")
endif()
