# How the folders are compiled, to be there soon.

# fedmrn_precompile(TARGET HEADER...): the standard library's headers and
# HEADER... are read once instead of once for each file. Only such as most files
# use: a file pays for the templates of all of them. The core has none, so that
# each of its files shows that it includes what it needs.
function(fedmrn_precompile target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional>
    <map> <memory> <optional> <span> <sstream> <string> <string_view> <thread>
    <utility> <vector> ${ARGN})
endfunction()

# fedmrn_waits(TARGET): a library that waits for files, people and the arithmetic
# of others, and so is compiled in two thirds of the time. The first such reads
# the headers for all of them, with {fmt}'s.
function(fedmrn_waits target)
  if(FEDMRN_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
  get_property(first GLOBAL PROPERTY FEDMRN_WAITS)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY FEDMRN_WAITS ${target})
    fedmrn_precompile(${target} <fmt/format.h>)
  endif()
endfunction()
