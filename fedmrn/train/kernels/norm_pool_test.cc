#include "fedmrn/train/kernels/norm_pool.h"

#include <utility>
#include <vector>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

// What the three functions give, one after the other.
struct BlockResults {
  std::vector<float> mean, variance, y, picked, dx, dgamma, dbeta;
};

template <typename Moments, typename Forward, typename Backward>
BlockResults All(const Activation& in, const Activation& out, uint32_t group,
                 Moments moments, Forward forward, Backward backward) {
  const std::vector<float> x = Normal(1, in.size()), dy = Normal(2, out.size());
  const std::vector<float> scale = Normal(3, in.channels),
                           shift = Normal(4, in.channels);
  BlockResults r;
  for (auto* v : {&r.mean, &r.variance, &r.dgamma, &r.dbeta}) {
    v->resize(in.channels);
  }
  r.y.resize(out.size());
  r.picked.resize(out.size());
  r.dx = x;
  moments(in, x.data(), r.mean.data(), r.variance.data());
  forward(in, x.data(), scale.data(), shift.data(), out, r.y.data(),
          r.picked.data());
  // Any numbers will do for the inverse deviation.
  backward(in, r.dx.data(), out, r.y.data(), r.picked.data(), dy.data(),
           {r.mean, r.variance, scale, r.dgamma, r.dbeta, group});
  return r;
}

TEST(NormPool, VectorsEqualDefinition) {
  for (const BlockCase& shape : kBlockCases) {
    for (const bool pool : {false, true}) {
      for (const uint32_t in_block : {16u, shape.channels}) {
        for (const auto& choice :
             {std::pair{16u, 1u}, {shape.channels, 1u}, {16u, 4u}, {16u, 0u}}) {
          const uint32_t out_block = choice.first, group = choice.second;
          SCOPED_TRACE(testing::Message()
                       << shape.images << "x" << shape.channels << "x"
                       << shape.height << "x" << shape.width << " pool " << pool
                       << " blocks " << in_block << " " << out_block
                       << " group " << group);
          const Activation in{shape.images, shape.channels, shape.height,
                              shape.width, in_block};
          Activation out = in;
          out.block = out_block;
          if (pool) out.height /= 2, out.width /= 2;
          const BlockResults plain =
              All(in, out, group, ref::ChannelMoments, ref::NormReluPool,
                  ref::NormReluPoolGradient);
          ForEachTarget([&] {
            const BlockResults vector = All(in, out, group, ChannelMoments,
                                            NormReluPool, NormReluPoolGradient);
            ExpectClose(vector.mean, plain.mean, 1e-5);
            ExpectClose(vector.variance, plain.variance, 1e-5);
            ExpectClose(vector.y, plain.y, 1e-6);
            ExpectSameBits(vector.picked, plain.picked);
            ExpectClose(vector.dgamma, plain.dgamma, 1e-5);
            ExpectClose(vector.dbeta, plain.dbeta, 1e-5);
            ExpectClose(vector.dx, plain.dx, 1e-5);
          });
        }
      }
    }
  }
}

// The first of equals, as PyTorch does it, and nothing where ReLU is shut.
TEST(NormPool, GradientGoesToTheFirstOfEquals) {
  const Activation in{1, 16, 2, 2, 16}, out{1, 16, 1, 1, 16};
  std::vector<float> x(64, 1.0f);
  const std::vector<float> one(16, 1.0f), zero(16), minus(16, -5.0f),
      dy(16, 3.0f);
  std::vector<float> y(16), picked(16), dgamma(16), dbeta(16);
  ForEachTarget([&] {
    for (const bool open : {true, false}) {
      std::vector<float> dx = x;
      NormReluPool(in, x.data(), one.data(), (open ? zero : minus).data(), out,
                   y.data(), picked.data());
      EXPECT_EQ(y, std::vector<float>(16, open ? 1.0f : 0.0f));
      // With inv_std 0 nothing passes through mean and variance but the mean.
      NormReluPoolGradient(in, dx.data(), out, y.data(), picked.data(),
                           dy.data(), {one, zero, one, dgamma, dbeta});
      const float mean = open ? 0.75f : 0;
      for (size_t c = 0; c < 16; ++c) {
        EXPECT_EQ(dbeta[c], open ? 3.0f : 0.0f);
        EXPECT_EQ(dx[c], (open ? 3.0f : 0.0f) - mean);
        for (size_t p = 1; p < 4; ++p) EXPECT_EQ(dx[16 * p + c], -mean);
      }
    }
  });
}

}  // namespace
}  // namespace fedmrn::train
