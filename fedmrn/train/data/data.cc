#include "fedmrn/train/data/data.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/parallel.h"
#include "fedmrn/base/sha256.h"

namespace fedmrn::train {
namespace {

void TrainAsTest(const Data& data, std::span<const uint32_t> examples,
                 Batch& batch) {
  if (data.train_as_test) {
    data.train_as_test(examples, batch);
  } else {
    data.train_batch(examples, {}, batch);
  }
}

template <typename T>
void AppendList(const std::vector<T>& values, Bytes& bytes) {
  AppendLe(uint64_t{values.size()}, bytes);
  AppendLe(std::span<const T>(values), bytes);
}

void AppendBatch(const Batch& batch, Bytes& bytes) {
  AppendList(batch.shape, bytes);
  AppendList(batch.x, bytes);
  AppendList(batch.tokens, bytes);
  AppendList(batch.labels, bytes);
  AppendList(batch.values, bytes);
}

}  // namespace

Data TestedOn(Data data, std::vector<uint32_t> examples) {
  const auto all = std::make_shared<const Data>(data);
  const auto chosen =
      std::make_shared<const std::vector<uint32_t>>(std::move(examples));
  data.test_examples = chosen->size();
  data.test_batch = [all, chosen](uint64_t first, uint32_t count,
                                  Batch& batch) {
    TrainAsTest(*all, std::span(*chosen).subspan(first, count), batch);
  };
  return data;
}

std::string Sha256Of(const Data& data) {
  const uint64_t train = data.train_examples;
  const uint64_t examples = train + data.test_examples;
  // Each batch has its own, so that they can be made side by side.
  const uint64_t batch_size = data.largest_test_batch;
  const uint64_t train_batches = (train + batch_size - 1) / batch_size;
  const uint64_t batches =
      train_batches + (data.test_examples + batch_size - 1) / batch_size;
  // Every batch, or an even choice of those that take their time.
  const uint64_t step =
      data.prepare_ahead ? std::max<uint64_t>(1, batches / 128) : 1;
  std::vector<std::string> digests((batches + step - 1) / step);
  const uint32_t workers = std::max(1u, std::thread::hardware_concurrency());
  ParallelFor(digests.size(), workers, [&](size_t, size_t at) {
    const uint64_t index = at * step;
    Batch batch;
    Bytes bytes;
    if (index < train_batches) {
      std::vector<uint32_t> chosen;
      for (uint64_t i = index * batch_size;
           i < std::min(train, (index + 1) * batch_size); ++i) {
        chosen.push_back(static_cast<uint32_t>(i));
      }
      TrainAsTest(data, chosen, batch);
    } else {
      const uint64_t first = (index - train_batches) * batch_size;
      data.test_batch(first,
                      static_cast<uint32_t>(
                          std::min(batch_size, data.test_examples - first)),
                      batch);
    }
    AppendBatch(batch, bytes);
    digests[at] = Sha256Hex(bytes);
  });
  Bytes bytes;
  AppendLe(examples, bytes);
  AppendLe(train, bytes);
  AppendLe(uint64_t{data.classes}, bytes);
  AppendList(data.labels, bytes);
  AppendList(data.clients, bytes);
  for (const std::string& digest : digests) {
    bytes.insert(bytes.end(), digest.begin(), digest.end());
  }
  return Sha256Hex(bytes);
}

}  // namespace fedmrn::train
