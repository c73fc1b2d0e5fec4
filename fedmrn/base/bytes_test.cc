#include "fedmrn/base/bytes.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace fedmrn {
namespace {

TEST(Bits, WriterAndReaderAgree) {
  std::mt19937 random(1);
  std::vector<std::pair<uint32_t, int>> fields;
  Bytes bytes;
  uint64_t bits = 0;
  {
    BitWriter writer(bytes);
    for (int i = 0; i < 10000; ++i) {
      const int width = static_cast<int>(random() % 33);
      const uint32_t value =
          width == 32 ? random() : random() & ((1u << width) - 1);
      fields.emplace_back(value, width);
      writer.Put(value, width);
      bits += width;
    }
  }
  EXPECT_EQ(bytes.size(), BytesForBits(bits));
  EXPECT_TRUE(PaddingIsZero(bytes, bits));
  BitReader reader(bytes);
  for (const auto& [value, width] : fields) {
    ASSERT_EQ(reader.Get(width), value);
  }
  EXPECT_EQ(reader.position(), bits);
  EXPECT_FALSE(reader.overrun());
}

TEST(Bits, ReaderStopsAtTheEnd) {
  const Bytes bytes = {0xFF};
  BitReader reader(bytes);
  EXPECT_EQ(reader.Get(8), 0xFFu);
  EXPECT_FALSE(reader.overrun());
  EXPECT_EQ(reader.Get(1), 0u);
  EXPECT_TRUE(reader.overrun());
}

TEST(Bits, LeastSignificantFirst) {
  Bytes bytes;
  {
    BitWriter writer(bytes);
    writer.Put(1, 1);
    writer.Put(2, 2);
    writer.Put(0x1F, 5);
    writer.Put(3, 3);
  }
  EXPECT_EQ(bytes, (Bytes{0b11111101, 0b011}));
  EXPECT_TRUE(TestBit(bytes.data(), 0));
  EXPECT_FALSE(TestBit(bytes.data(), 1));
  EXPECT_FALSE(PaddingIsZero(bytes, 9));
  EXPECT_TRUE(PaddingIsZero(bytes, 10));
}

}  // namespace
}  // namespace fedmrn
