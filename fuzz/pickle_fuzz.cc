// Any bytes as what torch.save pickled, in a sound archive beside one record of
// values. No file here is a module, so that LibTorch opens the archive and the
// rest is our own reader's; torch_fuzz tries LibTorch's as well.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fedmrn/base/check.h"
#include "fedmrn/base/files.h"
#include "fedmrn/train/torch/torch_module.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  static const train::TorchModule* const torch =
      train::LoadTorchModule().value();
  FuzzInput input(data, size);
  ZipMaker zip;
  zip.Add("archive/data.pkl", input.Piece());
  zip.Add("archive/data/0", input.rest());
  zip.Add("archive/version", AsBytes("3\n"));
  const auto tensors =
      torch->read_tensors("file", std::string(AsText(std::move(zip).Finish())));
  if (!tensors) {
    FEDMRN_CHECK(tensors.error().message.starts_with("file: "));
    return 0;
  }
  for (const train::NamedTensor& tensor : *tensors) {
    int64_t values = 1;
    for (const int64_t extent : tensor.shape) values *= extent;
    FEDMRN_CHECK(static_cast<size_t>(values) == tensor.values.size());
  }
  return 0;
}
