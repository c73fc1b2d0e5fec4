# Installs a build into a scratch prefix, builds the example against it as a
# project of its own, and runs it.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT
    OUTPUT_VARIABLE output ECHO_OUTPUT_VARIABLE COMMAND_ERROR_IS_FATAL ANY)
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${SCRATCH_DIR}/prefix)
set(build ${SCRATCH_DIR}/build)
file(REMOVE_RECURSE ${SCRATCH_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${CONFIG}
  --prefix ${prefix})

set(flags -Wall -Wextra -Wpedantic -Wshadow -Werror)
list(JOIN flags " " flags)
# The core alone needs none of the program's packages.
foreach(package CURL LibArchive OpenSSL PNG PkgConfig ZLIB fmt oneDNN)
  list(APPEND without -D CMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
run(${CMAKE_COMMAND} -S ${EXAMPLE_DIR} -B ${build} -G ${GENERATOR}
  -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_BUILD_TYPE=${CONFIG}
  -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_CXX_FLAGS=${flags} ${without})
run(${CMAKE_COMMAND} --build ${build} --config ${CONFIG})
run(${build}/roundtrip)
# A plain mask would take 12,500 bytes, and header and checksum 92.
if(NOT output MATCHES
   "100000 parameters in [4-9][0-9][0-9][0-9] bytes; weights moved by 0.00")
  message(FATAL_ERROR "unexpected output of the example: ${output}")
endif()
if(EXISTS ${prefix}/bin/fedmrn)
  run(${prefix}/bin/fedmrn --version)
endif()

# Every installed header stands alone: none includes one that stayed behind.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*.h)
if(NOT headers)
  message(FATAL_ERROR "no header was installed")
endif()
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER ${header} name)
  file(WRITE ${SCRATCH_DIR}/headers/${name}.cc "#include \"${header}\"\n")
  list(APPEND sources ${SCRATCH_DIR}/headers/${name}.cc)
endforeach()
run(${CXX} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror
  -I ${prefix}/include ${sources})
