#include "fedmrn/train/torch_module.h"

#include <dlfcn.h>

namespace fedmrn {

Result<const TorchModule*> LoadTorchModule() {
  // Found beside the program or, once installed, in ../lib: see its RUNPATH.
  static void* const library = dlopen(FEDMRN_TORCH_MODULE, RTLD_NOW);
  const auto bad = [](const char* why) {
    return Error{ErrorCode::kUnavailable,
                 std::string("cannot open LibTorch: ") + (why ? why : "")};
  };
  if (library == nullptr) return bad(dlerror());
  const auto door = reinterpret_cast<const TorchModule* (*)()>(
      dlsym(library, "fedmrn_torch_module"));
  if (door == nullptr) return bad(dlerror());
  return door();
}

}  // namespace fedmrn
