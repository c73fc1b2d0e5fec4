#include "fedmrn/train/model/bisenetv2.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "fedmrn/core/random.h"
#include "fedmrn/train/model/model.h"
#include "gtest/gtest.h"

namespace fedmrn::train {
namespace {

constexpr uint32_t kVocClasses = 20;
constexpr int64_t kSide = 64;

Data MakeData() {
  Data data;
  data.name = "made-up";
  data.input = Input::kImages;
  data.target = Target::kPixelClasses;
  data.shape = {kSide, kSide, 3};
  data.classes = kVocClasses;
  data.mean = {0.3f, 0.4f, 0.3f};
  data.std = {0.2f, 0.2f, 0.25f};
  return data;
}

// Images of noise, brighter on the left, where they have the class `label`.
Batch MakeBatch(uint32_t images, int32_t label, int64_t side = kSide) {
  Batch batch;
  batch.examples = images;
  batch.shape = {images, side, side, 3};
  Random random({images, Purpose::kSynthetic, 0});
  for (int64_t i = 0; i < images * side * side; ++i) {
    const bool left = i % side < side / 2;
    batch.labels.push_back(left ? label : kNoClass);
    for (int c = 0; c < 3; ++c) {
      batch.x.push_back(static_cast<float>(random.Normal() + (left ? 1 : 0)));
    }
  }
  return batch;
}

Result<Model> Make(const ModelSettings& settings, const Data& data) {
  return FindModel("bisenetv2")->make(settings, data);
}

// A model with its values and room for gradients.
struct MadeBiSeNet {
  Model model;
  std::vector<float> coded, plain, coded_gradient, plain_gradient;
  std::unique_ptr<Network> network;

  explicit MadeBiSeNet(ModelSettings settings = {}, uint64_t seed = 1) {
    settings.name = "bisenetv2";
    Result<Model> made = Make(settings, MakeData());
    if (!made) {
      ADD_FAILURE() << made.error().message;
      std::abort();
    }
    model = std::move(*made);
    coded.resize(model.layout.coded_params());
    plain.resize(model.layout.plain_values());
    coded_gradient.assign(coded.size(), NAN);
    plain_gradient.assign(model.trainable_plain, NAN);
    model.initialize(seed, coded, plain);
    network = model.make_network();
  }

  double Gradient(const Batch& batch) {
    return network
        ->Gradient(batch, {9, Purpose::kDropout, 1}, coded, plain,
                   coded_gradient, plain_gradient)
        .loss;
  }

  // The values of each tensor in buffers like ours.
  std::map<std::string, std::span<const float>> ByName(
      std::span<const float> of_coded, std::span<const float> of_plain) const {
    std::map<std::string, std::span<const float>> parts;
    for (const TensorLayout& tensor : model.layout.tensors) {
      std::span<const float>& rest = tensor.coded ? of_coded : of_plain;
      if (rest.empty()) continue;
      parts[tensor.name] = rest.first(tensor.size());
      rest = rest.subspan(tensor.size());
    }
    return parts;
  }

  std::string Save() const { return *model.torchscript(coded, plain); }
};

TEST(BiSeNetV2, HasThePublishedNumberOfWeights) {
  const MadeBiSeNet made;
  std::map<std::string, uint64_t> parts;
  for (const TensorLayout& tensor : made.model.layout.tensors) {
    EXPECT_EQ(tensor.coded, tensor.shape.size() == 4) << tensor.name;
    if (tensor.coded) {
      parts[tensor.name.substr(0, tensor.name.find('.'))] += tensor.size();
    }
  }
  const std::map<std::string, uint64_t> published = {
      {"detail", 517'824}, {"segment", 1'146'912}, {"bga", 477'440},
      {"head", 1'200'128}, {"aux2", 37'184},       {"aux3", 111'872},
      {"aux4", 373'760},   {"aux5_4", 1'347'584},  {"proj_head", 49'152}};
  EXPECT_EQ(parts, published);
  EXPECT_EQ(made.model.layout.coded_params(), 5'261'856u);
  EXPECT_STREQ(made.model.metric, "pixel accuracy");
}

TEST(BiSeNetV2, InitialValues) {
  const MadeBiSeNet made;
  size_t zero_scales = 0;
  for (const auto& [name, values] : made.ByName(made.coded, made.plain)) {
    double sum = 0, squares = 0;
    for (const float v : values) sum += v, squares += v * v;
    const auto size = static_cast<double>(values.size());
    if (name.ends_with("running_var")) {
      EXPECT_EQ(sum, size) << name;
    } else if (name.ends_with("bias") || name.ends_with("running_mean")) {
      EXPECT_EQ(squares, 0) << name;
    } else if (name.ends_with(".conv2.1.weight")) {
      EXPECT_EQ(squares, 0) << name;
      ++zero_scales;
    } else if (name == "head.conv.conv.weight") {
      EXPECT_NEAR(sum / size, 0, 1e-3);
      EXPECT_NEAR(squares / size, 2.0 / (1024 * 9), 1e-5);
    } else if (name == "segment.S5_4.1.dwconv.0.weight") {
      EXPECT_NEAR(squares / size, 2.0 / (768 * 9), 1e-5);
    } else if (name.ends_with("bn.weight")) {
      EXPECT_EQ(sum, size) << name;
    }
  }
  EXPECT_EQ(zero_scales, 8u);  // one for each gather-and-expansion layer
  std::vector<float> coded(made.coded.size()), plain(made.plain.size());
  made.model.initialize(1, coded, plain);
  EXPECT_EQ(coded, made.coded);
  made.model.initialize(2, coded, plain);
  EXPECT_NE(coded, made.coded);
}

TEST(BiSeNetV2, OutputsAreAsLargeAsTheImage) {
  std::istringstream file(MadeBiSeNet().Save());
  torch::jit::Module module = torch::jit::load(file);
  const std::vector<int64_t> shape = {2, kVocClasses, 64, 96};
  const at::Tensor x = at::rand({2, 3, 64, 96});
  EXPECT_EQ(module.forward({x}).toTensor().sizes(), shape);
  module.train();
  const auto outputs = module.forward({x}).toTuple();
  ASSERT_EQ(outputs->elements().size(), 5u);
  for (const c10::IValue& output : outputs->elements()) {
    EXPECT_EQ(output.toTensor().sizes(), shape);
  }
  const at::Tensor pixels = at::randint(0, 256, {1, 3, 32, 32}, at::kByte);
  EXPECT_TRUE(
      at::allclose(module.get_method("normalise")({pixels}).toTensor()[0][2],
                   (pixels[0][2] / 255.0 - 0.3) / 0.25));
}

TEST(BiSeNetV2, LearnsAndEvaluatesAsItsFile) {
  MadeBiSeNet made;
  const Batch batch = MakeBatch(2, 7);
  const double before = made.Gradient(batch);
  // Five outputs; none knows anything yet.
  EXPECT_GT(before, 5 * 0.1);
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < made.coded.size(); ++i) {
      made.coded[i] -= 0.01f * made.coded_gradient[i];
    }
    for (size_t i = 0; i < made.plain_gradient.size(); ++i) {
      made.plain[i] -= 0.01f * made.plain_gradient[i];
    }
    made.Gradient(batch);
  }
  EXPECT_LT(made.Gradient(batch), 0.8 * before);

  const Score score = made.network->Evaluate(batch, made.coded, made.plain);
  EXPECT_EQ(score.count, 2u * kSide * kSide / 2);
  ASSERT_EQ(score.confusion.size(), kVocClasses * kVocClasses);
  EXPECT_EQ(static_cast<double>(score.confusion[7 * kVocClasses + 7]),
            score.metric);
  std::istringstream file(made.Save());
  const at::Tensor logits =
      torch::jit::load(file)
          .forward(
              {at::from_blob(const_cast<float*>(batch.x.data()), batch.shape)
                   .permute({0, 3, 1, 2})
                   .contiguous()})
          .toTensor();
  const at::Tensor labels =
      at::tensor(batch.labels).to(at::kLong).reshape({2, kSide, kSide});
  EXPECT_NEAR(
      score.loss / static_cast<double>(score.count),
      at::cross_entropy_loss(logits, labels, {}, at::Reduction::Mean, kNoClass)
          .item<double>(),
      1e-3);
}

TEST(BiSeNetV2, HeadsLearnFaster) {
  ModelSettings slow, fast;
  slow.head_lr = 1;
  fast.head_lr = 8;
  MadeBiSeNet one(slow), eight(fast);
  const Batch batch = MakeBatch(2, 3);
  EXPECT_EQ(one.Gradient(batch), eight.Gradient(batch));
  const auto theirs = eight.ByName(eight.coded_gradient, eight.plain_gradient);
  for (const auto& [name, ours] :
       one.ByName(one.coded_gradient, one.plain_gradient)) {
    const bool head = name.starts_with("head") || name.starts_with("aux") ||
                      name.starts_with("proj_head");
    bool all_zero = true;
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(theirs.at(name)[i], (head ? 8 : 1) * ours[i]) << name;
      all_zero &= ours[i] == 0;
    }
    // No loss looks at the projection.
    if (name.starts_with("proj_head")) {
      EXPECT_TRUE(all_zero) << name;
    } else if (name.starts_with("aux")) {
      EXPECT_FALSE(all_zero) << name;
    }
  }
}

TEST(BiSeNetV2, EqualCallsGiveEqualBytes) {
  MadeBiSeNet made;
  const std::vector<float> plain = made.plain;
  const Batch batch = MakeBatch(2, 3);
  made.Gradient(batch);
  const std::vector<float> gradient = made.coded_gradient;
  const std::vector<float> plain_after = made.plain;
  for (int call = 0; call < 2; ++call) {
    made.Gradient(MakeBatch(1, 5));
    made.plain = plain;
    made.Gradient(batch);
    EXPECT_EQ(made.coded_gradient, gradient);
    EXPECT_EQ(made.plain, plain_after);
  }
}

// Some maps of a single small image have one value, which has no variance.
TEST(BiSeNetV2, OneImageIsEnough) {
  MadeBiSeNet made;
  for (const int64_t side : {32, 64}) {
    EXPECT_TRUE(std::isfinite(made.Gradient(MakeBatch(1, 0, side))));
    for (const float v : made.plain) ASSERT_TRUE(std::isfinite(v));
    for (const float v : made.coded_gradient) ASSERT_TRUE(std::isfinite(v));
  }
}

std::string WriteModule(const std::string& contents) {
  const std::string path =
      testing::TempDir() + "fedmrn_" +
      testing::UnitTest::GetInstance()->current_test_info()->name() + ".pt";
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

using Dictionary = c10::Dict<std::string, at::Tensor>;

// Gives every tensor of one branch, as a state_dict has it.
Dictionary StateOf(const MadeBiSeNet& made, const std::string& branch) {
  Dictionary state;
  const auto values = made.ByName(made.coded, made.plain);
  for (const TensorLayout& tensor : made.model.layout.tensors) {
    if (!tensor.name.starts_with(branch + ".")) continue;
    const std::span<const float> from = values.at(tensor.name);
    state.insert(tensor.name.substr(branch.size() + 1),
                 at::from_blob(const_cast<float*>(from.data()),
                               std::vector<int64_t>(tensor.shape.begin(),
                                                    tensor.shape.end()))
                     .clone());
  }
  state.insert("S1.0.bn.num_batches_tracked", at::ones({}, at::kLong));
  return state;
}

std::string Pickle(const c10::IValue& value) {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  return {bytes.begin(), bytes.end()};
}

TEST(BiSeNetV2, BackboneFromAModuleOrAStateDict) {
  const MadeBiSeNet donor({}, 5);
  std::vector<float> coded(donor.coded.size()), plain(donor.plain.size());
  donor.model.initialize(6, coded, plain);
  const auto from_donor = donor.ByName(donor.coded, donor.plain);
  const auto from_seed = donor.ByName(coded, plain);
  c10::Dict<std::string, Dictionary> nested;
  for (const char* branch : {"detail", "segment", "bga"}) {
    nested.insert(branch, StateOf(donor, branch));
  }
  for (const std::string& contents : {donor.Save(), Pickle(nested)}) {
    ModelSettings settings;
    settings.backbone = WriteModule(contents);
    const MadeBiSeNet made(settings, 6);
    for (const auto& [name, values] : made.ByName(made.coded, made.plain)) {
      const bool backbone = BiSeNetV2::InBackbone(name);
      EXPECT_TRUE(std::ranges::equal(
          values, (backbone ? from_donor : from_seed).at(name)))
          << name;
    }
  }
}

TEST(BiSeNetV2, BadBackbones) {
  const MadeBiSeNet donor;
  const auto refusal = [](const std::string& path) {
    ModelSettings settings;
    settings.name = "bisenetv2";
    settings.backbone = path;
    const Result<Model> model = Make(settings, MakeData());
    if (model) return std::string("none");
    EXPECT_TRUE(model.error().message.starts_with(path + ": "));
    return model.error().message.substr(path.size() + 2);
  };
  const auto refusal_of = [&](const Dictionary& detail) {
    c10::Dict<std::string, Dictionary> nested;
    nested.insert("detail", detail);
    return refusal(WriteModule(Pickle(nested)));
  };
  EXPECT_EQ(refusal("/nowhere/b.pth"), "No such file or directory");
  EXPECT_EQ(refusal(WriteModule("nonsense")).substr(0, 35),
            "is no file of PyTorch 1.6 or later;");
  Dictionary state = StateOf(donor, "detail");
  EXPECT_EQ(refusal_of(state), "none");
  state.insert_or_assign("S1.0.conv.weight", at::ones({64, 3, 5, 5}));
  EXPECT_EQ(refusal_of(state),
            "tensor detail.S1.0.conv.weight has the shape [64, 3, 5, 5]; "
            "bisenetv2 needs [64, 3, 3, 3]");
  EXPECT_EQ(state.erase("S1.0.conv.weight"), 1u);
  EXPECT_EQ(refusal_of(state), "tensor detail.S1.0.conv.weight is missing");
  state.insert("S1.0.conv.kernel", at::ones({2}));
  EXPECT_EQ(refusal_of(state),
            "tensor detail.S1.0.conv.kernel has no place in bisenetv2");
  Dictionary other;
  other.insert("conv1.weight", at::ones({2, 2}));
  EXPECT_EQ(refusal(WriteModule(Pickle(other))),
            "has no tensor of bisenetv2's backbone, such as "
            "detail.S1.0.conv.weight; its first is conv1.weight");
}

TEST(BiSeNetV2, RefusesOtherData) {
  const auto refusal = [](const Data& data) {
    ModelSettings settings;
    settings.name = "bisenetv2";
    const Result<Model> model = Make(settings, data);
    return model ? "none" : model.error().message;
  };
  Data data = MakeData();
  data.shape = {64, 80, 3};
  EXPECT_EQ(refusal(data),
            "bisenetv2 cannot learn made-up: the sides of its images must be "
            "multiples of 32, not 80");
  data = MakeData();
  data.target = Target::kClass;
  EXPECT_EQ(refusal(data),
            "bisenetv2 cannot learn made-up: it takes images in colour with a "
            "class for every pixel");
}

}  // namespace
}  // namespace fedmrn::train
