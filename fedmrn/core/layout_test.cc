#include "fedmrn/core/layout.h"

#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

ModelLayout Small() {
  return {{{"conv.weight", {32, 1, 3, 3}, true},
           {"bn.weight", {32}, false},
           {"out.weight", {10, 256}, true}}};
}

TEST(Layout, Counts) {
  EXPECT_EQ(Small().coded_params(), 288u + 2560u);
  EXPECT_EQ(Small().plain_values(), 32u);
  EXPECT_EQ(Small().segments(), (std::vector<uint32_t>{288, 2560}));
}

// Quoted in docs/wire-format.md.
TEST(Layout, FingerprintIsStable) {
  EXPECT_EQ(Small().Fingerprint(), 0xcf49829377cade6au);
}

TEST(Layout, FingerprintTellsModelsApart) {
  const uint64_t fingerprint = Small().Fingerprint();
  ModelLayout other = Small();
  other.tensors[0].name = "conv.weights";
  EXPECT_NE(other.Fingerprint(), fingerprint);
  other = Small();
  other.tensors[0].shape = {32, 3, 3, 1};
  EXPECT_NE(other.Fingerprint(), fingerprint);
  other = Small();
  other.tensors[1].coded = true;
  EXPECT_NE(other.Fingerprint(), fingerprint);
  other = Small();
  std::swap(other.tensors[0], other.tensors[2]);
  EXPECT_NE(other.Fingerprint(), fingerprint);
}

}  // namespace
}  // namespace fedmrn
