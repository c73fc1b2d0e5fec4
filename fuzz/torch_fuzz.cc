// Any bytes as a file of torch.save or torch.jit.save, or as the pickle in a
// sound one.
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
  FuzzInput input(data, size, 2);
  Bytes file(input.rest().begin(), input.rest().end());
  if (input.kind() == 1) {
    ZipMaker zip;
    zip.Add("archive/data.pkl", input.Piece());
    zip.Add("archive/data/0", input.rest());
    zip.Add("archive/version", AsBytes("3\n"));
    file = std::move(zip).Finish();
  }
  const auto tensors = torch->read_tensors("file", std::string(AsText(file)));
  if (!tensors) {
    FEDMRN_CHECK(!tensors.error().message.empty());
    return 0;
  }
  for (const train::NamedTensor& tensor : *tensors) {
    int64_t values = 1;
    for (const int64_t extent : tensor.shape) values *= extent;
    FEDMRN_CHECK(static_cast<size_t>(values) == tensor.values.size());
  }
  return 0;
}
