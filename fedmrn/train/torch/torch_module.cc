#include "fedmrn/train/torch/torch_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace fedmrn::train {
namespace {

struct Opened {
  void* library = nullptr;
  std::string problem;
};

// Beside the program or, once installed, in ../lib; then wherever the system
// looks.
Opened Open() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = program.parent_path();
  Opened opened;
  for (const fs::path& place :
       {folder / FEDMRN_TORCH_MODULE,
        folder / FEDMRN_TORCH_INSTALLED / FEDMRN_TORCH_MODULE,
        fs::path(FEDMRN_TORCH_MODULE)}) {
    if (place.has_parent_path() && !fs::exists(place, error)) continue;
    opened.library = dlopen(place.c_str(), RTLD_NOW);
    if (opened.library != nullptr) return opened;
    const char* const why = dlerror();
    opened.problem = why != nullptr ? why : place.string();
  }
  return opened;
}

}  // namespace

Result<const TorchModule*> LoadTorchModule() {
  static const Opened opened = Open();
  const auto bad = [](const std::string& why) {
    return Error{ErrorCode::kFailed, "cannot open LibTorch: " + why};
  };
  if (opened.library == nullptr) return bad(opened.problem);
  const auto door = reinterpret_cast<const TorchModule* (*)()>(
      dlsym(opened.library, "fedmrn_torch_module"));
  if (door == nullptr) return bad("fedmrn_torch_module is missing in it");
  return door();
}

}  // namespace fedmrn::train
