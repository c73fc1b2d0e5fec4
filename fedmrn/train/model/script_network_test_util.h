// Shared by the tests of users' TorchScript networks: modules that are written
// here, made-up examples for them, and what LibTorch says of both.
#pragma once

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on
#include <torch/csrc/jit/serialization/import.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/core/random.h"
#include "fedmrn/train/model/model.h"
#include "fedmrn/train/model/torchscript.h"
#include "fedmrn/train/task.h"
#include "gtest/gtest.h"

namespace fedmrn::train {

inline std::string WriteFile(const std::string& contents) {
  const std::string path =
      testing::TempDir() + "fedmrn_" +
      testing::UnitTest::GetInstance()->current_test_info()->name() + ".pt";
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

inline torch::jit::Module Load(const std::string& path) {
  return torch::jit::load(path);
}

// A module's file: tensors with values that differ, and methods.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  bool trainable = true;
};
inline std::string MakeFile(const std::vector<Tensor>& tensors,
                            const std::string& source) {
  std::vector<std::vector<float>> values(tensors.size());
  std::vector<TorchScriptTensor> full;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Random random({5, Purpose::kInit, static_cast<uint32_t>(i)});
    values[i].resize(static_cast<size_t>(c10::multiply_integers(
        tensors[i].shape.begin(), tensors[i].shape.end())));
    // Positive, because variances are.
    for (float& v : values[i]) v = static_cast<float>(random.Uniform()) + 0.1f;
    full.push_back(
        {tensors[i].name, tensors[i].shape, values[i], tensors[i].trainable});
  }
  const Result<std::string> file = MakeTorchScript(full, source);
  if (!file) ADD_FAILURE() << file.error().message;
  return WriteFile(*file);
}

// Made-up examples: 2-channel images of 4x6, or other inputs.
inline constexpr int64_t kHeight = 4, kWidth = 6, kChannels = 2;
inline constexpr uint32_t kClasses = 3;

inline Batch MakeBatch(const Data& data, std::span<const uint32_t> examples) {
  Batch batch;
  batch.examples = static_cast<uint32_t>(examples.size());
  batch.shape = data.shape;
  batch.shape.insert(batch.shape.begin(), batch.examples);
  for (const uint32_t e : examples) {
    Random random({e, Purpose::kSynthetic, 0});
    const int64_t size =
        c10::multiply_integers(data.shape.begin(), data.shape.end());
    for (int64_t i = 0; i < size; ++i) {
      if (data.input == Input::kTokens) {
        batch.tokens.push_back(
            static_cast<int32_t>(random.Below(data.vocabulary)));
      } else {
        batch.x.push_back(static_cast<float>(random.Normal()));
      }
    }
    switch (data.target) {
      case Target::kClass:
        batch.labels.push_back(static_cast<int32_t>(random.Below(kClasses)));
        break;
      case Target::kPixelClasses:  // some have none
        for (int64_t i = 0; i < kHeight * kWidth; ++i) {
          batch.labels.push_back(
              static_cast<int32_t>(random.Below(kClasses + 1)) - 1);
        }
        break;
      case Target::kNumbers:
        batch.values.push_back(static_cast<float>(e % 7) + 1);
        batch.values.push_back(static_cast<float>(random.Normal()));
        break;
    }
  }
  return batch;
}

inline Data MakeData(Input input, Target target) {
  Data data;
  data.name = "made-up";
  data.input = input;
  data.target = target;
  data.shape = {kHeight, kWidth, kChannels};
  if (input == Input::kTokens) data.shape = {5};
  if (input == Input::kNumbers) data.shape = {3};
  data.vocabulary = 7;
  data.classes = target == Target::kNumbers ? 1 : kClasses;
  if (target == Target::kNumbers) data.target_shape = {2};
  data.train_examples = 30;
  data.test_examples = 20;
  data.largest_test_batch = 8;
  data.labels.resize(data.train_examples);
  data.train_batch = [data](std::span<const uint32_t> examples,
                            const PhiloxStream&, Batch& batch) {
    batch = MakeBatch(data, examples);
  };
  data.test_batch = [data](uint64_t first, uint32_t count, Batch& batch) {
    std::vector<uint32_t> examples(count);
    std::iota(examples.begin(), examples.end(),
              1000 + static_cast<uint32_t>(first));
    batch = MakeBatch(data, examples);
  };
  return data;
}

inline const std::vector<Tensor> kConvTensors = {
    {"conv.weight", {8, kChannels, 3, 3}},
    {"bn.weight", {8}},
    {"bn.bias", {8}},
    {"bn.running_mean", {8}, false},
    {"bn.running_var", {8}, false},
    {"fc.weight", {kClasses, 8 * kHeight* kWidth}},
    {"fc.bias", {kClasses}}};

// `extra` comes before the last layer.
inline std::string ConvSource(const std::string& extra = "") {
  return "def forward(self, x: Tensor) -> Tensor:\n"
         "  x = torch.conv2d(x, self.conv.weight, None, [1, 1], [1, 1])\n"
         "  x = torch.batch_norm(x, self.bn.weight, self.bn.bias, "
         "self.bn.running_mean, self.bn.running_var, self.training, 0.1, 1e-5, "
         "True)\n"
         "  x = torch.relu(x)\n" +
         extra +
         "  x = x.view([x.size(0), -1])\n"
         "  return torch.matmul(x, self.fc.weight.t()) + self.fc.bias\n";
}

inline ModelSettings Settings(const std::string& path) {
  ModelSettings settings;
  settings.name = "torchscript";
  settings.torchscript = path;
  return settings;
}

// A model with its values and room for gradients.
struct Made {
  Data data;
  Model model;
  std::vector<float> coded, plain, coded_gradient, plain_gradient;
  std::unique_ptr<Network> network;

  Made(Data from, const ModelSettings& settings) : data(std::move(from)) {
    Result<Model> made = FindModel("torchscript")->make(settings, data);
    if (!made) {
      ADD_FAILURE() << made.error().message;
      std::abort();
    }
    model = std::move(*made);
    coded.resize(model.layout.coded_params());
    plain.resize(model.layout.plain_values());
    coded_gradient.assign(coded.size(), NAN);
    plain_gradient.assign(model.trainable_plain, NAN);
    model.initialize(1, coded, plain);
    network = model.make_network();
  }

  double Gradient(std::span<const uint32_t> examples, uint32_t step = 1) {
    return network
        ->Gradient(MakeBatch(data, examples), {9, Purpose::kDropout, step},
                   coded, plain, coded_gradient, plain_gradient)
        .loss;
  }
};

inline constexpr uint32_t kExamples[] = {3, 14, 15, 9, 26, 5};

inline at::Tensor NchwInput(const Batch& batch) {
  return at::from_blob(const_cast<float*>(batch.x.data()), batch.shape)
      .permute({0, 3, 1, 2})
      .contiguous();
}
inline at::Tensor Labels(const Batch& batch, std::vector<int64_t> shape) {
  return at::tensor(batch.labels).to(at::kLong).reshape(shape);
}
inline std::vector<float> ToVector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}
// Those of several tensors, one after the other.
inline std::vector<float> Joined(const std::vector<at::Tensor>& tensors) {
  std::vector<float> all;
  for (const at::Tensor& tensor : tensors) {
    const std::vector<float> values = ToVector(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline std::vector<std::string> CodedNames(const Model& model) {
  std::vector<std::string> names;
  for (const TensorLayout& tensor : model.layout.tensors) {
    if (tensor.coded) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace fedmrn::train
