#include "fedmrn/train/model/cnn.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/kernels/buffer.h"
#include "fedmrn/train/kernels/compute_threads.h"
#include "fedmrn/train/kernels/convolution.h"
#include "fedmrn/train/kernels/image_block.h"
#include "fedmrn/train/kernels/matrix_product.h"
#include "fedmrn/train/model/loss.h"

namespace fedmrn::train {
namespace {

const CnnSpec kSpecs[] = {
    // Convolutions of 32 to 256 channels, then a linear layer.
    {"cnn4", {{32, true}, {64, true}, {128, true}, {256, true}}},
    {"cnn8",
     {{32, false},
      {32, true},
      {64, false},
      {64, true},
      {128, false},
      {128, true},
      {256, false},
      {256, true}}},
};

// From the moments of several channels to those of all of them together.
void PoolMoments(std::span<float> means, std::span<float> variances) {
  const auto count = static_cast<double>(means.size());
  double mean = 0, variance = 0;
  for (const float m : means) mean += double{m} / count;
  for (size_t c = 0; c < means.size(); ++c) {
    const double distance = double{means[c]} - mean;
    variance += (double{variances[c]} + distance * distance) / count;
  }
  std::ranges::fill(means, static_cast<float>(mean));
  std::ranges::fill(variances, static_cast<float>(variance));
}

}  // namespace

const CnnSpec* FindCnn(std::string_view name) {
  for (const CnnSpec& spec : kSpecs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

// One block of a plan: its convolution, and where its parameters lie.
struct Cnn::Block {
  std::optional<Convolution> convolution;  // none where images come in
  Activation in;   // the convolution's result; where images come in, they
  Activation out;  // after pooling; in the layout that the next layer takes
  size_t weights;  // in `coded`
  size_t channels;
  size_t gamma, beta, mean, variance;  // in `plain`, if the norm has them
};

struct Cnn::Plan {
  uint32_t images;
  std::vector<Block> blocks;
};

struct Cnn::Memory {
  struct OfBlock {
    Buffer convolved;  // the convolution's result; backward: its gradient
    Buffer out;
    Buffer picked;
    // Statistics and what follows from them, a value for each channel of each
    // part.
    std::vector<float> mean, variance, inv_std, scale, shift;
    // A part's own.
    std::vector<float> gamma_gradient, beta_gradient;
  };

  std::vector<OfBlock> blocks;
  std::vector<PatchSums> patches;      // of each part, where images come in
  std::vector<double> first_gradient;  // of the weights there
  Buffer gradient;  // of the activation that the backward pass has reached
  Buffer scratch;
  Buffer logits;
  Buffer linear;  // the linear layer's weights in NHWC order
  Buffer linear_gradient;
};

bool Cnn::Fits(const CnnSpec& spec, const ImageShape& image) {
  uint32_t height = image.height, width = image.width;
  for (const CnnBlock& block : spec.blocks) {
    if (block.pool) height /= 2, width /= 2;
  }
  return height > 0 && width > 0;
}

Cnn::Cnn(const CnnSpec& spec, const ImageShape& image, uint32_t classes,
         Norm norm, uint32_t threads)
    : blocks_(spec.blocks),
      image_(image),
      classes_(classes),
      norm_(norm),
      threads_(threads),
      memory_(std::make_unique<Memory>()) {
  FEDMRN_CHECK(Fits(spec, image));
  memory_->blocks.resize(blocks_.size());
  std::vector<TensorLayout> trained, statistics;
  uint32_t height = image.height, width = image.width;
  uint32_t channels = image.channels;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const uint32_t next = blocks_[i].channels;
    layout_.tensors.push_back(
        {"conv" + number + ".weight", {next, channels, 3, 3}, true});
    const std::string name = (norm == Norm::kBatch ? "bn" : "gn") + number;
    if (norm != Norm::kNone) {
      trained.push_back({name + ".weight", {next}, false});
      trained.push_back({name + ".bias", {next}, false});
      trainable_plain_ += 2 * next;
    }
    if (norm == Norm::kBatch) {
      statistics.push_back({name + ".running_mean", {next}, false});
      statistics.push_back({name + ".running_var", {next}, false});
    }
    channels = next;
    if (blocks_[i].pool) height /= 2, width /= 2;
  }
  feature_channels_ = channels;
  features_ = channels * height * width;
  layout_.tensors.push_back({"fc.weight", {classes, features_}, true});
  layout_.tensors.insert(layout_.tensors.end(), trained.begin(), trained.end());
  layout_.tensors.insert(layout_.tensors.end(), statistics.begin(),
                         statistics.end());
}

Cnn::~Cnn() = default;

uint64_t Cnn::ForwardMacs() const {
  uint64_t macs = uint64_t{features_} * classes_;
  uint64_t pixels_h = image_.height, pixels_w = image_.width;
  uint64_t channels = image_.channels;
  for (const CnnBlock& block : blocks_) {
    macs += pixels_h * pixels_w * 9 * channels * block.channels;
    channels = block.channels;
    if (block.pool) pixels_h /= 2, pixels_w /= 2;
  }
  return macs;
}

uint64_t Cnn::BackwardMacs() const {
  // Twice the forward pass, but nobody needs the gradient of the images.
  return 2 * ForwardMacs() - uint64_t{image_.height} * image_.width * 9 *
                                 image_.channels * blocks_[0].channels;
}

void Cnn::Initialize(uint64_t seed, std::span<float> coded,
                     std::span<float> plain) const {
  Random random({seed, Purpose::kInit});
  size_t at = 0;
  for (const TensorLayout& tensor : layout_.tensors) {
    if (!tensor.coded) continue;
    const bool he = norm_ == Norm::kNone && tensor.shape.size() == 4;
    const double deviation = he ? std::sqrt(2.0 / (9 * tensor.shape[1])) : 0.01;
    for (float& w : coded.subspan(at, tensor.size())) {
      w = static_cast<float>(deviation * random.Normal());
    }
    at += tensor.size();
  }
  at = 0;
  for (const TensorLayout& tensor : layout_.tensors) {
    if (tensor.coded) continue;
    const bool ones = tensor.name.ends_with(".weight") ||
                      tensor.name.ends_with(".running_var");
    std::fill_n(plain.begin() + static_cast<ptrdiff_t>(at), tensor.size(),
                ones ? 1.0f : 0.0f);
    at += tensor.size();
  }
}

const Cnn::Plan& Cnn::PlanFor(uint32_t images) {
  std::unique_ptr<Plan>& plan = plans_[images];
  if (plan != nullptr) return *plan;
  plan = std::make_unique<Plan>();
  plan->images = images;
  uint32_t height = image_.height, width = image_.width;
  uint32_t channels = image_.channels;
  size_t weights = 0, trained = 0, statistics = trainable_plain_;
  size_t scratch = 0, gradient = size_t{images} * features_;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const uint32_t next = blocks_[i].channels;
    std::optional<Convolution> convolution;
    Activation in{images, channels, height, width, channels};
    if (i > 0) {
      convolution.emplace(
          Convolution::Shape{images, channels, next, height, width}, threads_);
      plan->blocks.back().out = convolution->in();
      gradient = std::max(gradient, convolution->in().size());
      scratch = std::max(scratch, convolution->scratch_floats());
      in = convolution->out();
    }
    if (blocks_[i].pool) height /= 2, width /= 2;
    // The last one feeds the linear layer, in NHWC.
    plan->blocks.push_back({std::move(convolution),
                            in,
                            {images, next, height, width, next},
                            weights,
                            next,
                            trained,
                            trained + next,
                            statistics,
                            statistics + next});
    weights += size_t{9} * channels * next;
    trained += 2 * next;
    statistics += 2 * next;
    channels = next;
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = plan->blocks[i];
    Memory::OfBlock& memory = memory_->blocks[i];
    if (block.convolution) memory.convolved.Need(block.in.size());
    memory.out.Need(block.out.size());
    if (blocks_[i].pool || i == 0) memory.picked.Need(block.out.size());
    const size_t values = Parts(*plan) * block.channels;
    for (auto* of : {&memory.mean, &memory.variance, &memory.inv_std,
                     &memory.scale, &memory.shift}) {
      of->resize(std::max(of->size(), values));
    }
    memory.gamma_gradient.resize(block.channels);
    memory.beta_gradient.resize(block.channels);
  }
  memory_->gradient.Need(gradient);
  memory_->scratch.Need(scratch);
  memory_->logits.Need(size_t{images} * classes_);
  memory_->linear.Need(size_t{features_} * classes_);
  memory_->linear_gradient.Need(size_t{features_} * classes_);
  return *plan;
}

// The linear layer's weights are in the order channel, pixel (PyTorch's); its
// inputs in the order pixel, channel.
void Cnn::Linear(const Plan& plan, std::span<const float> coded) {
  const float* weights = coded.last(size_t{features_} * classes_).data();
  const size_t pixels = features_ / feature_channels_;
  float* to = memory_->linear.get();
  for (size_t row = 0; row < classes_; ++row) {
    for (size_t p = 0; p < pixels; ++p) {
      for (size_t c = 0; c < feature_channels_; ++c) {
        *to++ = weights[row * features_ + c * pixels + p];
      }
    }
  }
  MatrixProduct('N', 'T', plan.images, classes_, features_,
                memory_->blocks.back().out.get(), memory_->linear.get(),
                memory_->logits.get());
}

size_t Cnn::Parts(const Plan& plan) const {
  return norm_ == Norm::kGroup ? plan.images : 1;
}

uint32_t Cnn::GroupOf(const Block& block) const {
  switch (norm_) {
    case Norm::kBatch:
      return 1;
    case Norm::kGroup:
      return static_cast<uint32_t>(block.channels / kNormGroups);
    case Norm::kNone:
      break;
  }
  return 0;
}

std::span<const float> Cnn::WeightsOf(const Block& block,
                                      std::span<const float> coded) const {
  return coded.subspan(block.weights,
                       size_t{9} * block.in.channels * block.channels);
}

struct Cnn::Part {
  Activation in, out;
  float *x, *y, *picked;  // the convolution's result, the block's
  size_t gradient;        // y's place in the gradient
  std::span<float> mean, variance, inv_std, scale, shift;
};

Cnn::Part Cnn::PartOf(const Plan& plan, size_t index, size_t part) {
  const Block& block = plan.blocks[index];
  Memory::OfBlock& m = memory_->blocks[index];
  Activation in = block.in, out = block.out;
  in.images = out.images = static_cast<uint32_t>(in.images / Parts(plan));
  // What this block does not keep has no address.
  const auto share = [&](const auto& of, size_t size) {
    return of.get() == nullptr ? nullptr : of.get() + part * size;
  };
  const auto values = [&](std::vector<float>& of) {
    return std::span(of).subspan(part * block.channels, block.channels);
  };
  return {in,
          out,
          share(m.convolved, in.size()),
          share(m.out, out.size()),
          share(m.picked, out.size()),
          part * out.size(),
          values(m.mean),
          values(m.variance),
          values(m.inv_std),
          values(m.scale),
          values(m.shift)};
}

// Fills in the part's statistics, scale and shift.
void Cnn::Normalise(const Block& block, const Part& part,
                    std::span<const float> plain, float* running,
                    const std::function<void()>& moments) {
  if (norm_ == Norm::kNone) {
    for (size_t c = 0; c < block.channels; ++c) {
      part.mean[c] = part.inv_std[c] = part.shift[c] = 0;
      part.scale[c] = 1;
    }
    return;
  }
  if (norm_ == Norm::kBatch && running == nullptr) {
    for (size_t c = 0; c < block.channels; ++c) {
      part.scale[c] = plain[block.gamma + c] /
                      std::sqrt(plain[block.variance + c] + kBatchNormEpsilon);
      part.shift[c] =
          plain[block.beta + c] - plain[block.mean + c] * part.scale[c];
    }
    return;
  }
  moments();
  if (norm_ == Norm::kGroup) {
    const uint32_t group = GroupOf(block);
    for (size_t first = 0; first < block.channels; first += group) {
      PoolMoments(part.mean.subspan(first, group),
                  part.variance.subspan(first, group));
    }
  }
  const auto count = static_cast<float>(part.in.images * part.in.pixels());
  const float unbiased = count > 1 ? count / (count - 1) : 1;
  for (size_t c = 0; c < block.channels; ++c) {
    part.inv_std[c] = 1 / std::sqrt(part.variance[c] + kBatchNormEpsilon);
    part.scale[c] = plain[block.gamma + c] * part.inv_std[c];
    part.shift[c] = plain[block.beta + c] - part.mean[c] * part.scale[c];
    if (norm_ != Norm::kBatch) continue;
    float& mean = running[block.mean + c];
    float& variance = running[block.variance + c];
    mean += kBatchNormMomentum * (part.mean[c] - mean);
    variance += kBatchNormMomentum * (unbiased * part.variance[c] - variance);
  }
}

void Cnn::ForwardImages(const Plan& plan, const float* x,
                        std::span<const float> coded,
                        std::span<const float> plain, float* running,
                        bool training) {
  const Block& block = plan.blocks[0];
  memory_->patches.resize(std::max(memory_->patches.size(), Parts(plan)));
  for (size_t p = 0; p < Parts(plan); ++p) {
    const Part part = PartOf(plan, 0, p);
    const std::span weights = WeightsOf(block, coded);
    const float* const images = x + p * part.in.size();
    Normalise(block, part, plain, running, [&] {
      memory_->patches[p] = SumPatches(part.in, images, threads_);
      ConvolutionMoments(memory_->patches[p], weights, part.mean,
                         part.variance);
    });
    ConvolveNormReluPool(part.in, images, weights, part.scale.data(),
                         part.shift.data(), part.out, part.y,
                         training ? part.picked : nullptr, threads_);
  }
}

const float* Cnn::Forward(const Plan& plan, const float* x,
                          std::span<const float> coded,
                          std::span<const float> plain, float* running,
                          bool training) {
  ForwardImages(plan, x, coded, plain, running, training);
  for (size_t i = 1; i < plan.blocks.size(); ++i) {
    const Block& block = plan.blocks[i];
    block.convolution->Forward(
        memory_->blocks[i - 1].out.get(), coded.data() + block.weights,
        memory_->blocks[i].convolved.get(), memory_->scratch.get());
    for (size_t p = 0; p < Parts(plan); ++p) {
      const Part part = PartOf(plan, i, p);
      Normalise(block, part, plain, running, [&] {
        ChannelMoments(part.in, part.x, part.mean.data(), part.variance.data());
      });
      ForEachPart(part.in.images, threads_,
                  [&](uint32_t, uint32_t first, uint32_t count) {
                    Activation from = part.in, to = part.out;
                    from.images = to.images = count;
                    const size_t at = first * to.image_size();
                    NormReluPool(
                        from, part.x + first * from.image_size(),
                        part.scale.data(), part.shift.data(), to, part.y + at,
                        training && part.picked ? part.picked + at : nullptr);
                  });
    }
  }
  return memory_->blocks.back().out.get();
}

BatchScore Cnn::Gradient(std::span<const float> x,
                         std::span<const int32_t> labels,
                         std::span<const float> coded, std::span<float> plain,
                         std::span<float> coded_gradient,
                         std::span<float> plain_gradient) {
  const Plan& plan = PlanFor(static_cast<uint32_t>(labels.size()));
  Memory& memory = *memory_;
  const float* const in =
      Forward(plan, x.data(), coded, plain, plain.data(), /*training=*/true);
  Linear(plan, coded);
  const std::span logits(memory.logits.get(), labels.size() * classes_);
  const BatchScore score = CrossEntropy(logits, labels, logits.data());

  float* const gradient = memory.gradient.get();
  MatrixProduct('T', 'N', classes_, features_, plan.images, logits.data(), in,
                memory.linear_gradient.get());
  const size_t pixels = features_ / feature_channels_;
  float* to = coded_gradient.last(size_t{features_} * classes_).data();
  for (size_t row = 0; row < classes_; ++row) {
    for (size_t c = 0; c < feature_channels_; ++c) {
      for (size_t p = 0; p < pixels; ++p) {
        *to++ = memory.linear_gradient
                    .get()[row * features_ + p * feature_channels_ + c];
      }
    }
  }
  MatrixProduct('N', 'N', plan.images, features_, classes_, logits.data(),
                memory.linear.get(), gradient);
  memory.first_gradient.assign(WeightsOf(plan.blocks[0], coded).size(), 0.0);
  for (size_t i = plan.blocks.size(); i-- > 0;) {
    const Block& block = plan.blocks[i];
    Memory::OfBlock& m = memory.blocks[i];
    for (size_t p = 0; p < Parts(plan); ++p) {
      const Part part = PartOf(plan, i, p);
      const NormState state{part.mean,        part.inv_std,    part.scale,
                            m.gamma_gradient, m.beta_gradient, GroupOf(block)};
      const float* const y_gradient = gradient + part.gradient;
      if (i > 0) {
        NormReluPoolGradient(part.in, part.x, part.out, part.y, part.picked,
                             y_gradient, state);
      } else {
        ConvolveNormReluPoolGradient(part.in, x.data() + p * part.in.size(),
                                     WeightsOf(block, coded), part.out,
                                     part.picked, y_gradient, memory.patches[p],
                                     state, memory.first_gradient, threads_);
      }
      if (norm_ == Norm::kNone) continue;
      for (size_t c = 0; c < block.channels; ++c) {
        float& gamma = plain_gradient[block.gamma + c];
        float& beta = plain_gradient[block.beta + c];
        gamma = m.gamma_gradient[c] + (p == 0 ? 0 : gamma);
        beta = m.beta_gradient[c] + (p == 0 ? 0 : beta);
      }
    }
    if (i > 0) {
      block.convolution->Backward(
          memory.blocks[i - 1].out.get(), coded.data() + block.weights,
          m.convolved.get(), coded_gradient.data() + block.weights, gradient,
          memory.scratch.get());
    }
  }
  std::ranges::transform(memory.first_gradient, coded_gradient.begin(),
                         [](double g) { return static_cast<float>(g); });
  return score;
}

std::span<const float> Cnn::Logits(std::span<const float> x, uint32_t images,
                                   std::span<const float> coded,
                                   std::span<const float> plain) {
  const Plan& plan = PlanFor(images);
  Forward(plan, x.data(), coded, plain, nullptr, /*training=*/false);
  Linear(plan, coded);
  return {memory_->logits.get(), size_t{images} * classes_};
}

}  // namespace fedmrn::train
