// Our kernels against LibTorch's own, forward and backward.
// clang-format off: clang needs ivalue.h before the rest of LibTorch.
#include <ATen/core/ivalue.h>
// clang-format on
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/kernels/convolution.h"
#include "fedmrn/train/kernels/norm_pool.h"
#include "fedmrn/train/model/cnn.h"
#include "fedmrn/train/model/loss.h"
#include "fedmrn/train/model/torch_test_util.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

torch::Tensor TensorOf(std::span<const float> values,
                       std::vector<int64_t> shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape).clone();
}

// Between NCHW and a blocked layout.
std::vector<float> ToLayout(const Activation& to, std::span<const float> nchw) {
  std::vector<float> values(to.size());
  for (size_t n = 0, i = 0; n < to.images; ++n) {
    for (size_t c = 0; c < to.channels; ++c) {
      for (size_t p = 0; p < to.pixels(); ++p, ++i) {
        values[to.Offset(n, c) + p * to.block] = nchw[i];
      }
    }
  }
  return values;
}

std::vector<float> FromLayout(const Activation& from,
                              std::span<const float> values) {
  std::vector<float> nchw(from.size());
  for (size_t n = 0, i = 0; n < from.images; ++n) {
    for (size_t c = 0; c < from.channels; ++c) {
      for (size_t p = 0; p < from.pixels(); ++p, ++i) {
        nchw[i] = values[from.Offset(n, c) + p * from.block];
      }
    }
  }
  return nchw;
}

struct BlockInputs {
  Activation in, out;
  torch::Tensor x, gamma, beta, y_gradient;
};

BlockInputs MakeBlock(const BlockCase& shape, bool pool, uint32_t in_block,
                      uint32_t out_block) {
  BlockInputs block;
  const uint32_t height = pool ? shape.height / 2 : shape.height;
  const uint32_t width = pool ? shape.width / 2 : shape.width;
  block.in = {shape.images, shape.channels, shape.height, shape.width,
              in_block};
  block.out = {shape.images, shape.channels, height, width, out_block};
  const std::vector<int64_t> x_shape = {shape.images, shape.channels,
                                        shape.height, shape.width};
  block.x = TensorOf(Normal(1, block.in.size()), x_shape) * 2 + 0.3;
  block.gamma = TensorOf(Normal(2, shape.channels), {shape.channels});
  block.beta = TensorOf(Normal(3, shape.channels), {shape.channels});
  block.y_gradient = TensorOf(Normal(4, block.out.size()),
                              {shape.images, shape.channels, height, width});
  return block;
}

TEST(NormPool, EqualsLibTorch) {
  for (const BlockCase& shape : kBlockCases) {
    for (const bool pool : {false, true}) {
      for (const uint32_t in_block : {16u, shape.channels}) {
        for (const uint32_t out_block : {16u, shape.channels}) {
          SCOPED_TRACE(testing::Message()
                       << shape.images << "x" << shape.channels << "x"
                       << shape.height << "x" << shape.width << " pool " << pool
                       << " blocks " << in_block << " " << out_block);
          const BlockInputs b = MakeBlock(shape, pool, in_block, out_block);
          torch::Tensor x = b.x.clone().requires_grad_();
          torch::Tensor gamma = b.gamma.clone().requires_grad_();
          torch::Tensor beta = b.beta.clone().requires_grad_();
          torch::Tensor y = torch::relu(torch::batch_norm(
              x, gamma, beta, {}, {}, true, 0.1, kBatchNormEpsilon, false));
          if (pool) y = torch::max_pool2d(y, 2);
          y.backward(b.y_gradient);

          ForEachTarget([&] {
            std::vector<float> ours = ToLayout(b.in, ValuesOf(b.x));
            const std::vector<float> dy =
                ToLayout(b.out, ValuesOf(b.y_gradient));
            std::vector<float> mean(shape.channels), variance(shape.channels),
                inv_std(shape.channels), scale(shape.channels),
                shift(shape.channels), dgamma(shape.channels),
                dbeta(shape.channels), out(b.out.size()), picked(b.out.size());
            ChannelMoments(b.in, ours.data(), mean.data(), variance.data());
            for (size_t c = 0; c < shape.channels; ++c) {
              inv_std[c] = 1 / std::sqrt(variance[c] + kBatchNormEpsilon);
              scale[c] = ValuesOf(b.gamma)[c] * inv_std[c];
              shift[c] = ValuesOf(b.beta)[c] - mean[c] * scale[c];
            }
            NormReluPool(b.in, ours.data(), scale.data(), shift.data(), b.out,
                         out.data(), picked.data());
            ExpectClose(FromLayout(b.out, out), ValuesOf(y.contiguous()), 1e-5);
            NormReluPoolGradient(b.in, ours.data(), b.out, out.data(),
                                 picked.data(), dy.data(),
                                 {mean, inv_std, scale, dgamma, dbeta});
            ExpectClose(dgamma, ValuesOf(gamma.grad()), 1e-4);
            ExpectClose(dbeta, ValuesOf(beta.grad()), 1e-4);
            ExpectClose(FromLayout(b.in, ours), ValuesOf(x.grad().contiguous()),
                        1e-4);
          });
        }
      }
    }
  }
}

TEST(Convolution, EqualsLibTorch) {
  const Convolution::Shape shapes[] = {
      {3, 32, 64, 14, 14}, {3, 64, 128, 7, 7},  {3, 128, 256, 3, 3},
      {2, 32, 32, 32, 32}, {2, 64, 64, 16, 16}, {2, 128, 128, 8, 8},
      {2, 256, 256, 4, 4}, {1, 32, 64, 5, 9},   {1, 128, 256, 1, 1},
  };
  for (const Convolution::Shape& s : shapes) {
    SCOPED_TRACE(testing::Message()
                 << s.images << " images, " << s.in_channels << " to "
                 << s.out_channels << ", " << s.height << "x" << s.width);
    const Convolution convolution(s);
    torch::Tensor x = TensorOf(Normal(1, size_t{s.images} * s.in_channels *
                                             s.height * s.width),
                               {s.images, s.in_channels, s.height, s.width})
                          .requires_grad_();
    torch::Tensor w =
        TensorOf(Normal(2, size_t{9} * s.in_channels * s.out_channels),
                 {s.out_channels, s.in_channels, 3, 3})
            .requires_grad_();
    const torch::Tensor y = torch::conv2d(x, w, {}, 1, 1);
    const torch::Tensor dy =
        TensorOf(Normal(3, static_cast<size_t>(y.numel())), y.sizes().vec());
    y.backward(dy);

    const std::vector<float> in = ToLayout(convolution.in(), ValuesOf(x));
    const std::vector<float> out_gradient =
        ToLayout(convolution.out(), ValuesOf(dy));
    std::vector<float> out(convolution.out().size()), dw(w.numel()),
        dx(in.size());
    auto scratch = hwy::AllocateAligned<float>(convolution.scratch_floats());
    convolution.Forward(in.data(), ValuesOf(w).data(), out.data(),
                        scratch.get());
    ExpectClose(FromLayout(convolution.out(), out), ValuesOf(y.contiguous()),
                5e-5);
    convolution.Backward(in.data(), ValuesOf(w).data(), out_gradient.data(),
                         dw.data(), dx.data(), scratch.get());
    ExpectClose(dw, ValuesOf(w.grad()), 5e-5);
    ExpectClose(FromLayout(convolution.in(), dx),
                ValuesOf(x.grad().contiguous()), 5e-5);
  }
}

// A network's tensors under their names, as views of the flat buffers.
class Parameters {
 public:
  Parameters(const ModelLayout& layout, std::span<const float> coded,
             std::span<const float> plain) {
    size_t coded_at = 0, plain_at = 0;
    for (const TensorLayout& tensor : layout.tensors) {
      size_t& at = tensor.coded ? coded_at : plain_at;
      tensors_.push_back(
          {tensor.name,
           TensorOf((tensor.coded ? coded : plain).subspan(at, tensor.size()),
                    {tensor.shape.begin(), tensor.shape.end()})});
      at += tensor.size();
    }
  }
  torch::Tensor& operator[](const std::string& name) {
    for (auto& [n, tensor] : tensors_) {
      if (n == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  // Gradients in the order of the layout.
  std::vector<float> Gradients(const ModelLayout& layout, bool coded) {
    std::vector<float> all;
    for (const TensorLayout& tensor : layout.tensors) {
      const torch::Tensor& t = (*this)[tensor.name];
      if (tensor.coded != coded || !t.requires_grad()) continue;
      const auto values = ValuesOf(t.grad());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  std::vector<std::pair<std::string, torch::Tensor>> tensors_;
};

torch::Tensor LibTorchLogits(const CnnSpec& spec, Norm norm, Parameters& p,
                             torch::Tensor x, bool training) {
  for (size_t i = 0; i < spec.blocks.size(); ++i) {
    const std::string n = std::to_string(i + 1);
    x = torch::conv2d(x, p["conv" + n + ".weight"], {}, 1, 1);
    if (norm == Norm::kBatch) {
      x = torch::batch_norm(x, p["bn" + n + ".weight"], p["bn" + n + ".bias"],
                            p["bn" + n + ".running_mean"],
                            p["bn" + n + ".running_var"], training, 0.1,
                            kBatchNormEpsilon, false);
    } else if (norm == Norm::kGroup) {
      x = torch::group_norm(x, 8, p["gn" + n + ".weight"],
                            p["gn" + n + ".bias"], 1e-5, false);
    }
    x = torch::relu(x);
    if (spec.blocks[i].pool) x = torch::max_pool2d(x, 2);
  }
  return torch::matmul(x.flatten(1), p["fc.weight"].t());
}

struct CnnCase {
  const char* model;
  ImageShape image;
  uint32_t classes, images;
  Norm norm = Norm::kBatch;
};

TEST(Cnn, StepEqualsLibTorch) {
  const CnnCase cases[] = {
      {"cnn4", {28, 28, 1}, 10, 6},
      {"cnn4", {32, 32, 3}, 10, 5},
      {"cnn8", {32, 32, 3}, 10, 4},
      {"cnn8", {32, 32, 3}, 100, 3},
      {"cnn4", {28, 28, 1}, 10, 1},
      {"cnn4", {19, 37, 3}, 7, 2},
      {"cnn4", {28, 28, 1}, 10, 6, Norm::kGroup},
      {"cnn8", {32, 32, 3}, 10, 4, Norm::kGroup},
      {"cnn4", {19, 37, 3}, 7, 2, Norm::kGroup},
      {"cnn4", {28, 28, 1}, 10, 6, Norm::kNone},
      {"cnn8", {32, 32, 3}, 10, 4, Norm::kNone},
  };
  for (const CnnCase& c : cases) {
    SCOPED_TRACE(testing::Message()
                 << c.model << " " << c.image.height << "x" << c.image.width
                 << " x" << c.images << " norm " << static_cast<int>(c.norm));
    const CnnSpec& spec = *FindCnn(c.model);
    Cnn cnn(spec, c.image, c.classes, c.norm);
    const ModelLayout& layout = cnn.layout();
    std::vector<float> plain(layout.plain_values());
    // Larger weights than at the start, so that no gradient is tiny.
    std::vector<float> coded(layout.coded_params());
    cnn.Initialize(1, coded, plain);
    if (c.norm != Norm::kNone) {
      for (float& w : coded) w *= 5;
    }
    for (size_t i = 0; i < plain.size(); ++i) {
      plain[i] += 0.1f * static_cast<float>(i % 7);
    }
    const Activation nhwc{c.images, c.image.channels, c.image.height,
                          c.image.width, c.image.channels};
    const std::vector<float> pixels = Normal(5, nhwc.size());
    const torch::Tensor x = TensorOf(
        pixels, {c.images, c.image.channels, c.image.height, c.image.width});
    const std::vector<float> ours_x = ToLayout(nhwc, pixels);
    std::vector<int32_t> labels(c.images);
    torch::Tensor targets = torch::empty({c.images}, torch::kLong);
    for (uint32_t i = 0; i < c.images; ++i) {
      labels[i] = static_cast<int32_t>(i * 3 % c.classes);
      targets[i] = static_cast<int64_t>(labels[i]);
    }

    Parameters p(layout, coded, plain);
    {
      torch::NoGradGuard no_gradient;
      const torch::Tensor logits = LibTorchLogits(spec, c.norm, p, x, false);
      ExpectClose(cnn.Logits(ours_x, c.images, coded, plain),
                  ValuesOf(logits.contiguous()), 1e-4);
    }
    for (const TensorLayout& tensor : layout.tensors) {
      if (tensor.name.find("running") == std::string::npos) {
        p[tensor.name].requires_grad_();
      }
    }
    const torch::Tensor loss = torch::cross_entropy_loss(
        LibTorchLogits(spec, c.norm, p, x, true), targets);
    loss.backward();
    std::vector<float> coded_gradient(coded.size()),
        plain_gradient(cnn.trainable_plain());
    const BatchScore ours = cnn.Gradient(ours_x, labels, coded, plain,
                                         coded_gradient, plain_gradient);
    EXPECT_NEAR(ours.loss, loss.item<double>(), 1e-4);
    // Rounding can move a pooled maximum to its neighbour: compare as vectors.
    // One such move in these sizes is some 3e-5; a mistake would be near 1.
    const std::vector<float> expected = p.Gradients(layout, true);
    EXPECT_LT(SquaredError(coded_gradient, expected),
              3e-4 * SquaredNorm(expected));
    const std::vector<float> expected_plain = p.Gradients(layout, false);
    EXPECT_EQ(plain_gradient.empty(), c.norm == Norm::kNone);
    EXPECT_LE(SquaredError(plain_gradient, expected_plain),
              3e-4 * SquaredNorm(expected_plain));
    size_t at = cnn.trainable_plain();
    for (const TensorLayout& tensor : layout.tensors) {
      if (tensor.name.find("running") == std::string::npos) continue;
      ExpectClose(std::span(plain).subspan(at, tensor.size()),
                  ValuesOf(p[tensor.name]), 1e-4);
      at += tensor.size();
    }
  }
}

TEST(Cnn, HasThePapersParameterCounts) {
  struct Counts {
    const char* model;
    ImageShape image;
    uint32_t classes;
    uint64_t coded, plain;
  };
  for (const Counts& c : {Counts{"cnn4", {28, 28, 1}, 10, 389920, 1920},
                          Counts{"cnn4", {32, 32, 3}, 10, 398176, 1920},
                          Counts{"cnn8", {32, 32, 3}, 10, 1181536, 3840},
                          Counts{"cnn8", {32, 32, 3}, 100, 1273696, 3840}}) {
    const Cnn cnn(*FindCnn(c.model), c.image, c.classes);
    EXPECT_EQ(cnn.layout().coded_params(), c.coded);
    EXPECT_EQ(cnn.layout().plain_values(), c.plain);
    EXPECT_EQ(cnn.trainable_plain(), c.plain / 2);
    // Group norm has nothing to send but what is trained.
    const Cnn group(*FindCnn(c.model), c.image, c.classes, Norm::kGroup);
    EXPECT_EQ(group.layout().coded_params(), c.coded);
    EXPECT_EQ(group.layout().plain_values(), c.plain / 2);
    EXPECT_EQ(group.trainable_plain(), c.plain / 2);
    const Cnn none(*FindCnn(c.model), c.image, c.classes, Norm::kNone);
    EXPECT_EQ(none.layout().plain_values(), 0u);
  }
}

// A plan for one batch size must leave nothing behind for another.
TEST(Cnn, ResultsDoNotDependOnWhatCameBefore) {
  for (const Norm norm : {Norm::kBatch, Norm::kGroup, Norm::kNone}) {
    Cnn used(*FindCnn("cnn4"), {28, 28, 1}, 10, norm),
        fresh = Cnn(*FindCnn("cnn4"), {28, 28, 1}, 10, norm);
    std::vector<float> coded(used.layout().coded_params()),
        plain(used.layout().plain_values());
    used.Initialize(1, coded, plain);
    const std::vector<float> x = Normal(1, 28 * 28 * 9);
    const std::vector<int32_t> labels = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const auto gradient = [&](Cnn& cnn, size_t images) {
      std::vector<float> statistics = plain, g(coded.size()),
                         dg(cnn.trainable_plain());
      cnn.Gradient(std::span(x).first(images * 784),
                   std::span(labels).first(images), coded, statistics, g, dg);
      return g;
    };
    gradient(used, 9);
    gradient(used, 2);
    ExpectSameBits(gradient(used, 5), gradient(fresh, 5));
    ExpectSameBits(gradient(used, 9), gradient(fresh, 9));
  }
}

TEST(Loss, CrossEntropyOfKnownRows) {
  // Row 0: equal logits, loss ln 4. Row 1: one far ahead, and right.
  const std::vector<float> logits = {1, 1, 1, 1, 0, 100, 0, 0};
  const std::vector<int32_t> labels = {2, 1};
  std::vector<float> gradient(8);
  const BatchScore trained = CrossEntropy(logits, labels, gradient.data());
  EXPECT_NEAR(trained.loss, std::log(4.0) / 2, 1e-6);
  EXPECT_EQ(trained.metric, 0.5);
  const Score score = CrossEntropy(logits, labels);
  EXPECT_NEAR(score.loss, std::log(4.0), 1e-6);
  EXPECT_EQ(score.metric, 1);
  EXPECT_EQ(score.count, 2u);
  // The first of equals is the answer to row 0.
  EXPECT_EQ(score.confusion, (std::vector<uint64_t>{0, 0, 0, 0, 0, 1, 0, 0, 1,
                                                    0, 0, 0, 0, 0, 0, 0}));
  ExpectClose(gradient,
              std::vector<float>{.125f, .125f, -.375f, .125f, 0, 0, 0, 0},
              1e-6);
}

}  // namespace
}  // namespace fedmrn::train
