// Any bytes as an .npz file, or as the arrays x, y and client in a sound one.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fedmrn/base/check.h"
#include "fedmrn/train/data/rows.h"
#include "fuzz/input.h"
#include "fuzz/memory_file.h"

namespace fedmrn {
namespace {

constexpr uint64_t kMaxValues = uint64_t{1} << 20;

void TryFile(ByteView bytes) {
  static MemoryFile file;
  const Result<train::Data> data = train::LoadNpz(
      {.name = "npz", .summary = "", .model = "", .load = nullptr},
      {.name = "npz", .path = file.With(bytes)});
  if (!data) {
    FEDMRN_CHECK(!data.error().message.empty());
    return;
  }
  FEDMRN_CHECK(data->classes > 0);
  FEDMRN_CHECK(data->labels.size() == data->train_examples);
  uint64_t values = 1;
  for (const int64_t extent : data->shape) {
    FEDMRN_CHECK(extent > 0);
    values *= static_cast<uint64_t>(extent);
  }
  if (data->train_examples == 0 || values > kMaxValues) return;
  train::Batch batch;
  const uint32_t last = static_cast<uint32_t>(data->train_examples - 1);
  data->train_batch({&last, 1}, {}, batch);
  if (data->test_examples > 0) data->test_batch(0, 1, batch);
}

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  FuzzInput input(data, size, 2);
  if (input.kind() == 0) {
    TryFile(input.rest());
    return 0;
  }
  ZipMaker zip;
  zip.Add("x.npy", input.Piece());
  zip.Add("y.npy", input.Piece());
  if (!input.rest().empty()) zip.Add("client.npy", input.rest());
  TryFile(std::move(zip).Finish());
  return 0;
}
