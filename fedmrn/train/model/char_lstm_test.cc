// The network against LibTorch, forward and backward.
// clang-format off: clang needs ivalue.h before the rest of LibTorch.
#include <ATen/core/ivalue.h>
// clang-format on
#include <torch/csrc/jit/serialization/import.h>
#include <torch/torch.h>

#include <sstream>
#include <vector>

#include "fedmrn/core/draws.h"
#include "fedmrn/core/random.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/train/model/char_lstm.h"
#include "fedmrn/train/model/torch_test_util.h"
#include "fedmrn/train/task.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

constexpr PhiloxStream kDraws{9, Purpose::kDropout, 4};

// Texts of `length` random tokens, and larger weights than at the start, so
// that the gates are not all half open.
struct Case {
  Case(uint32_t texts, uint32_t text_length, uint32_t vocabulary,
       uint32_t classes)
      : rows(texts),
        length(text_length),
        lstm(vocabulary, text_length, classes) {
    coded.resize(lstm.layout().coded_params());
    plain.resize(lstm.layout().plain_values());
    lstm.Initialize(1, coded, plain);
    for (float& w : coded) w *= 10;
    for (float& w : plain) w *= 100;
    Random random({2, Purpose::kSynthetic});
    for (uint32_t i = 0; i < rows * length; ++i) {
      tokens.push_back(static_cast<int32_t>(random.Below(vocabulary)));
    }
    for (uint32_t i = 0; i < rows; ++i) {
      labels.push_back(static_cast<int32_t>(random.Below(classes)));
    }
    coded_gradient.assign(coded.size(), NAN);
    plain_gradient.assign(plain.size(), NAN);
  }

  double Gradient() {
    return lstm
        .Gradient(tokens, labels, kDraws, coded, plain, coded_gradient,
                  plain_gradient)
        .loss;
  }

  uint32_t rows, length;
  CharLstm lstm;
  std::vector<float> coded, plain, coded_gradient, plain_gradient;
  std::vector<int32_t> tokens, labels;
};

torch::Tensor LongTensor(const std::vector<int32_t>& values,
                         std::vector<int64_t> shape) {
  return torch::tensor(std::vector<int64_t>(values.begin(), values.end()))
      .view(shape);
}

// The network as LibTorch computes it, from the flat buffers.
struct LstmReference {
  explicit LstmReference(const Case& c) {
    for (const TorchScriptTensor& tensor :
         TensorsOf(c.lstm.layout(), c.plain.size(), c.coded, c.plain)) {
      tensors.push_back(
          torch::from_blob(const_cast<float*>(tensor.values.data()),
                           tensor.shape)
              .clone()
              .requires_grad_());
    }
  }

  // `kept`: what dropout multiplies the last outputs with.
  torch::Tensor Logits(const Case& c, const torch::Tensor& kept) {
    const torch::Tensor x =
        torch::embedding(tensors[0], LongTensor(c.tokens, {c.rows, c.length}));
    const torch::Tensor zero = torch::zeros({1, c.rows, CharLstm::kUnits});
    const torch::Tensor outputs =
        std::get<0>(torch::lstm(x, {zero, zero}, {tensors[1], tensors[2]},
                                false, 1, 0.0, true, false, true));
    return torch::matmul(outputs.select(1, -1) * kept, tensors[3].t());
  }

  std::vector<torch::Tensor> tensors;  // in the order of the layout
};

TEST(CharLstm, HasThePapersParameterCounts) {
  const CharLstm lstm(80, 80, 80);
  EXPECT_EQ(lstm.layout().coded_params(), 290816u);
  EXPECT_EQ(lstm.layout().plain_values(), 640u);
  EXPECT_EQ(lstm.ForwardMacs(), 79u * 256 * 1024 + 256 * 80);
}

TEST(CharLstm, StepEqualsLibTorch) {
  Case cases[] = {
      {7, 12, 80, 80}, {1, 80, 80, 80}, {5, 1, 11, 3}, {30, 2, 4, 9}};
  for (Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.rows << " texts of " << c.length);
    LstmReference reference(c);
    const torch::Tensor all = torch::ones({c.rows, CharLstm::kUnits});
    ExpectClose(c.lstm.Logits(c.tokens, c.coded, c.plain),
                ValuesOf(reference.Logits(c, all).detach().contiguous()), 1e-5);

    torch::Tensor kept = torch::empty_like(all);
    for (int64_t i = 0; i < kept.numel(); ++i) {
      const bool drops = DrawUniform(kDraws, static_cast<uint64_t>(i)) < 0.5f;
      kept.data_ptr<float>()[i] = drops ? 0 : 2;
    }
    const torch::Tensor loss = torch::cross_entropy_loss(
        reference.Logits(c, kept), LongTensor(c.labels, {c.rows}));
    loss.backward();
    EXPECT_NEAR(c.Gradient(), loss.item<double>(), 1e-5);
    ExpectClose(c.plain_gradient, ValuesOf(reference.tensors[0].grad()), 1e-4);
    std::span<const float> rest = c.coded_gradient;
    for (size_t i = 1; i < reference.tensors.size(); ++i) {
      const std::span<const float> expected =
          ValuesOf(reference.tensors[i].grad());
      ExpectClose(rest.first(expected.size()), expected, 1e-4);
      rest = rest.subspan(expected.size());
    }
    EXPECT_TRUE(rest.empty());
  }
}

// Half of the outputs, anew for each stream, and none in evaluation.
TEST(CharLstm, DropsHalfOfTheOutputs) {
  Case c(64, 2, 80, 80);
  // An output that drops out moves no weight of the linear layer.
  const auto dropped = [&](uint32_t step) {
    std::vector<bool> zero;
    for (uint32_t row = 0; row < c.rows; ++row) {
      c.lstm.Gradient(std::span(c.tokens).subspan(row * c.length, c.length),
                      std::span(c.labels).subspan(row, 1),
                      {row, Purpose::kDropout, step}, c.coded, c.plain,
                      c.coded_gradient, c.plain_gradient);
      for (const float g : std::span(c.coded_gradient).last(CharLstm::kUnits)) {
        zero.push_back(g == 0);
      }
    }
    return zero;
  };
  const std::vector<bool> first = dropped(1), second = dropped(2);
  size_t both = 0, one = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    one += first[i];
    both += first[i] && second[i];
  }
  // Five standard deviations.
  EXPECT_NEAR(static_cast<double>(one), 8192, 320);
  EXPECT_NEAR(static_cast<double>(both), 4096, 277);
}

TEST(CharLstm, ResultsDoNotDependOnWhatCameBefore) {
  Case small(5, 9, 80, 80), large(20, 9, 80, 80);
  const double loss = small.Gradient();
  large.Gradient();
  large.lstm.Logits(large.tokens, large.coded, large.plain);
  std::vector<float> coded_gradient(small.coded.size()),
      plain_gradient(small.plain.size());
  EXPECT_EQ(large.lstm
                .Gradient(small.tokens, small.labels, kDraws, small.coded,
                          small.plain, coded_gradient, plain_gradient)
                .loss,
            loss);
  ExpectSameBits(coded_gradient, small.coded_gradient);
  ExpectSameBits(plain_gradient, small.plain_gradient);
}

Data TextData(const Case& c) {
  Data data;
  data.name = "texts";
  data.input = Input::kTokens;
  data.shape = {c.length};
  data.vocabulary = data.classes = 80;
  return data;
}

TEST(CharLstm, TorchScriptScoresTheSame) {
  Case c(6, 15, 80, 80);
  const Result<Task> task = MakeTask(TextData(c), {.name = "charlstm"});
  ASSERT_TRUE(task) << task.error().ToString();
  const Result<std::string> file = task->model.torchscript(c.coded, c.plain);
  ASSERT_TRUE(file) << file.error().ToString();
  std::istringstream stream(*file);
  torch::jit::Module module = torch::jit::load(stream);
  const torch::Tensor tokens = LongTensor(c.tokens, {c.rows, c.length});
  const torch::Tensor scores = module.forward({tokens}).toTensor();
  ASSERT_EQ(scores.sizes(), (std::vector<int64_t>{6, 80}));
  ExpectClose(c.lstm.Logits(c.tokens, c.coded, c.plain),
              ValuesOf(scores.detach().contiguous()), 1e-5);
  EXPECT_EQ(module.named_parameters().size(), 4u);

  // Only training drops out.
  EXPECT_TRUE(scores.equal(module.forward({tokens}).toTensor()));
  module.train();
  EXPECT_FALSE(scores.equal(module.forward({tokens}).toTensor()));
}

TEST(CharLstm, RefusesWhatIsNoText) {
  Data images = TextData(Case(1, 8, 80, 80));
  images.input = Input::kImages;
  Data numbers = TextData(Case(1, 8, 80, 80));
  numbers.target = Target::kNumbers;
  Data table = TextData(Case(1, 8, 80, 80));
  table.shape = {2, 4};
  for (const Data& data : {images, numbers, table}) {
    const Result<Task> task = MakeTask(data, {.name = "charlstm"});
    ASSERT_FALSE(task);
    EXPECT_TRUE(task.error().message.starts_with(
        "charlstm cannot learn texts: it names the character that follows a "
        "text, and an example here is "))
        << task.error().message;
  }
}

}  // namespace
}  // namespace fedmrn::train
