#include "fedmrn/train/model/torchscript.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on
#include <torch/csrc/jit/serialization/import.h>

#include <map>
#include <sstream>

#include "gtest/gtest.h"

namespace fedmrn::train {
namespace {

// Two blocks for images of 2 channels, 5x7: pooling drops the odd edges.
const std::vector<bool> kPoolAfter = {false, true};
const std::vector<float> kMean = {0.25f, 1}, kStd = {0.1f, 2};

class TorchScript : public testing::Test {
 protected:
  void SetUp() override {
    Add("conv1.weight", {3, 2, 3, 3});
    AddNorm("bn1", 3);
    Add("conv2.weight", {4, 3, 3, 3});
    AddNorm("bn2", 4);
    Add("fc.weight", {5, 4 * 2 * 3});
  }

  void Add(const std::string& name, std::vector<int64_t> shape,
           bool trainable = true) {
    names_.push_back(name);
    trainable_[name] = trainable;
    // Positive, because variances are.
    tensors_[name] = at::rand(shape) + 0.1;
  }
  void AddNorm(const std::string& name, int64_t channels) {
    Add(name + ".weight", {channels});
    Add(name + ".bias", {channels});
    Add(name + ".running_mean", {channels}, false);
    Add(name + ".running_var", {channels}, false);
  }

  Result<std::string> Make(const std::string& source) const {
    std::vector<TorchScriptTensor> tensors;
    for (const std::string& name : names_) {
      const at::Tensor& tensor = tensors_.at(name);
      tensors.push_back(
          {name,
           tensor.sizes().vec(),
           {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())},
           trainable_.at(name)});
    }
    return MakeTorchScript(tensors, source);
  }
  torch::jit::Module MakeCnn() const {
    const Result<std::string> file =
        Make(CnnSource(kPoolAfter, BatchNormSource(), kMean, kStd));
    EXPECT_TRUE(file);
    std::istringstream stream(*file);
    return torch::jit::load(stream);
  }

  // The same network, written with LibTorch's functions.
  at::Tensor Forward(at::Tensor x, bool training) {
    for (const std::string i : {"1", "2"}) {
      const auto bn = [&](const char* name) {
        return tensors_["bn" + i + name];
      };
      x = at::conv2d(x, tensors_["conv" + i + ".weight"], {}, 1, 1);
      x = at::batch_norm(x, bn(".weight"), bn(".bias"),
                         bn(".running_mean").clone(),
                         bn(".running_var").clone(), training, 0.1, 1e-5, true);
      x = at::relu(x);
    }
    x = at::max_pool2d(x, 2);
    return at::linear(at::flatten(x, 1), tensors_["fc.weight"]);
  }

  std::vector<std::string> names_;
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, bool> trainable_;
};

TEST_F(TorchScript, HasExactlyTheTensors) {
  const auto module = MakeCnn();
  size_t equal = 0;
  for (const auto& tensor : module.named_parameters()) {
    EXPECT_TRUE(trainable_.at(tensor.name)) << tensor.name;
    equal += tensor.value.equal(tensors_.at(tensor.name));
  }
  for (const auto& tensor : module.named_buffers()) {
    EXPECT_FALSE(trainable_.at(tensor.name)) << tensor.name;
    equal += tensor.value.equal(tensors_.at(tensor.name));
  }
  EXPECT_EQ(equal, names_.size());
}

TEST_F(TorchScript, EvaluatesAndTrainsAsTheNetwork) {
  auto module = MakeCnn();
  const at::Tensor x = at::randn({6, 2, 5, 7});
  EXPECT_FALSE(module.is_training());
  const at::Tensor scores = module.forward({x}).toTensor();
  EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{6, 5}));
  EXPECT_TRUE(at::allclose(scores, Forward(x, false), 1e-5, 1e-5));

  module.train();
  const at::Tensor training = module.forward({x}).toTensor();
  EXPECT_TRUE(at::allclose(training, Forward(x, true), 1e-5, 1e-5));
  EXPECT_FALSE(at::allclose(training, scores, 1e-5, 1e-5));
  training.sum().backward();
  for (const auto& parameter : module.named_parameters()) {
    EXPECT_TRUE(parameter.value.grad().defined()) << parameter.name;
  }
  for (const auto& buffer : module.named_buffers()) {
    EXPECT_FALSE(buffer.value.equal(tensors_.at(buffer.name))) << buffer.name;
  }
}

TEST_F(TorchScript, NormalisesBytes) {
  auto module = MakeCnn();
  const at::Tensor pixels = at::randint(0, 256, {3, 2, 5, 7}, at::kByte);
  const at::Tensor x =
      module.get_method("normalise")({pixels}).toTensor().contiguous();
  ASSERT_EQ(x.scalar_type(), at::kFloat);
  ASSERT_EQ(x.sizes(), pixels.sizes());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const size_t channel = static_cast<size_t>(i / 35 % 2);
    const float pixel = pixels.data_ptr<uint8_t>()[i];
    EXPECT_FLOAT_EQ(x.data_ptr<float>()[i],
                    (pixel / 255 - kMean[channel]) / kStd[channel]);
  }
}

TEST_F(TorchScript, SameBytesEveryTime) {
  const std::string source =
      CnnSource(kPoolAfter, BatchNormSource(), kMean, kStd);
  EXPECT_EQ(*Make(source), *Make(source));
}

// Children of lists have numbers, and two lists the same ones.
TEST_F(TorchScript, ModulesInModules) {
  names_.clear();
  Add("head.0.weight", {2, 3});
  Add("head.1.weight", {3, 2});
  Add("tail.0.weight", {2, 2});
  Add("tail.0.norm.mean", {2}, false);
  Add("scale", {});
  const Result<std::string> file = Make(
      "def forward(self, x):\n"
      "  for_all = getattr(self.head, \"0\").weight @ x\n"
      "  for_all = getattr(self.tail, \"0\").weight @ for_all\n"
      "  return self.scale * for_all + getattr(self.tail, \"0\").norm.mean\n");
  ASSERT_TRUE(file);
  std::istringstream stream(*file);
  torch::jit::Module module = torch::jit::load(stream);
  const at::Tensor x = at::rand({3});
  EXPECT_TRUE(at::allclose(
      module.forward({x}).toTensor(),
      tensors_["scale"] * at::mv(tensors_["tail.0.weight"],
                                 at::mv(tensors_["head.0.weight"], x)) +
          tensors_["tail.0.norm.mean"]));
  EXPECT_EQ(module.named_parameters().size(), 4);
  EXPECT_EQ(module.named_buffers().size(), 1);
}

// What is wrong with a source is told when it is loaded.
TEST_F(TorchScript, LoadingCompiles) {
  for (const char* body : {"x +* 1", "y", "self.conv9.weight", "torch.no(x)"}) {
    const Result<std::string> file =
        Make(std::string("def forward(self, x):\n  return ") + body + "\n");
    ASSERT_TRUE(file);
    std::istringstream stream(*file);
    EXPECT_THROW(torch::jit::load(stream), std::exception) << body;
  }
}

}  // namespace
}  // namespace fedmrn::train
