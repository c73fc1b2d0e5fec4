#include "fedmrn/train/torch/torch_module.h"

#include "fedmrn/base/module.h"

namespace fedmrn::train {

Result<const TorchModule*> LoadTorchModule() {
  static const Result<void*> door =
      OpenModule("libfedmrn_torch.so", "fedmrn_torch_module");
  if (!door) {
    return Error{ErrorCode::kFailed,
                 "cannot open LibTorch: " + door.error().message};
  }
  return reinterpret_cast<const TorchModule* (*)()>(*door)();
}

}  // namespace fedmrn::train
