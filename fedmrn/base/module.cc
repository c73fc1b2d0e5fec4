#include "fedmrn/base/module.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace fedmrn {

Result<void*> OpenModule(const std::string& file, const std::string& door) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder =
      fs::read_symlink("/proc/self/exe", error).parent_path();
  void* library = nullptr;
  std::string problem;
  ErrorCode code = ErrorCode::kUnavailable;
  for (const fs::path& place :
       {folder / file, folder / FEDMRN_MODULES_INSTALLED / file,
        fs::path(file)}) {
    const bool exists = place.has_parent_path() && fs::exists(place, error);
    if (place.has_parent_path() && !exists) continue;
    if (exists) code = ErrorCode::kFailed;
    library = dlopen(place.c_str(), RTLD_NOW);
    if (library != nullptr) break;
    const char* const why = dlerror();
    // What the module itself lacks says more than that the system has none.
    if (exists || problem.empty()) {
      problem = why != nullptr ? why : place.string();
    }
  }
  if (library == nullptr) return Error{code, problem};
  void* const found = dlsym(library, door.c_str());
  if (found == nullptr) {
    return Error{ErrorCode::kFailed, file + " has no " + door};
  }
  return found;
}

}  // namespace fedmrn
