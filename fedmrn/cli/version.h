// What this program is made of, for whoever must know whether a flaw in a
// library concerns it.
#pragma once

#include <string>

namespace fedmrn::cli {

// A JSON object: the version, compiler and SIMD target, the libraries by name,
// and every shared object of this process, LibTorch's and MPI's included. A
// library that can tell its version is asked; of headers it is that of the
// build. null: it is not there, or cannot be opened.
std::string VersionJson();

}  // namespace fedmrn::cli
