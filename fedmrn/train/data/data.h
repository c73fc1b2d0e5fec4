// Data as networks and partitions see it: examples by number, batches of plain
// numbers. Where they come from (files, archives, a generator) is the business
// of the data sets' own files; see dataset.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/core/philox.h"

namespace fedmrn::train {

enum class Input {
  kImages,   // batches are NHWC floats
  kTokens,   // codes, such as characters, below Data::vocabulary
  kNumbers,  // floats of any shape
};

enum class Target {
  kClass,         // one per example
  kPixelClasses,  // one per pixel, or kNoClass
  kNumbers,       // floats, for regression
};

inline constexpr int32_t kNoClass = -1;  // of a pixel that counts nowhere

struct Batch {
  uint32_t examples = 0;
  std::vector<int64_t> shape;   // of the whole input: `examples` comes first
  std::vector<float> x;         // the input, or
  std::vector<int32_t> tokens;  // that of Input::kTokens
  std::vector<int32_t> labels;  // the target: classes, or
  std::vector<float> values;    // that of Target::kNumbers
};

// Immutable and thread-safe.
struct Data {
  std::string name;
  Input input = Input::kImages;
  Target target = Target::kClass;
  // One example's input in training has this shape: height, width, channels of
  // an image, length of a text. Test examples may differ; see test_batch.
  std::vector<int64_t> shape;
  std::vector<int64_t> target_shape;  // of Target::kNumbers; empty: one number
  uint32_t classes = 0;               // 1 for Target::kNumbers
  uint32_t vocabulary = 0;            // of Input::kTokens
  // Images have these per channel: an input is (pixel / 255 - mean) / std.
  std::vector<float> mean, std;

  uint64_t train_examples = 0;
  uint64_t test_examples = 0;
  // What partitions look at, one per training example: its class (0 for
  // Target::kNumbers) and, of data that comes with its clients, the client.
  std::vector<uint16_t> labels;
  std::vector<uint32_t> clients;

  // What the user should know, such as the number of files left out.
  std::vector<std::string> notes;

  // Both are pure functions of their arguments. `draws` feeds augmentation.
  // What fails here, such as a file that has vanished, is thrown.
  std::function<void(std::span<const uint32_t> examples,
                     const PhiloxStream& draws, Batch& batch)>
      train_batch;
  std::function<void(uint64_t first, uint32_t count, Batch& batch)> test_batch;
  uint32_t largest_test_batch = 64;  // 1: they differ in size
  // Training examples as test_batch would give them, at most largest_test_batch
  // at once. Empty where training draws nothing: then train_batch does so.
  std::function<void(std::span<const uint32_t> examples, Batch& batch)>
      train_as_test;
  // A batch takes its time (files are decoded), so the next one is made in the
  // background.
  bool prepare_ahead = false;
};

// The data with these training examples in the place of its test examples. That
// nobody trains on them is the caller's business.
Data TestedOn(Data data, std::vector<uint32_t> examples);

// SHA-256 of everything that training and tests see, whatever file it came
// from. Where examples are decoded as they are needed, so that reading all
// would take minutes, it covers all labels and about 128 examples spread
// evenly.
std::string Sha256Of(const Data& data);

}  // namespace fedmrn::train
