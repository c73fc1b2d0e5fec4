// A data set out of nothing, for trials and tests: each class has two smooth
// patterns; an example is one of them, moved a little, mixed with a pattern of
// another class, under noise. Integers only: the same bytes everywhere.
#include <algorithm>
#include <array>

#include "fedmrn/core/random.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr uint32_t kClasses = 10, kStyles = 2, kSide = 28;
constexpr uint32_t kReach = 3;  // an example moves by as much at most
constexpr uint32_t kCell = 4;   // between the random values of a pattern
constexpr uint32_t kCanvas = 36;
static_assert(kCanvas % kCell == 0 && kCanvas >= kSide + 2 * kReach);

using Pattern = std::array<std::array<uint8_t, kCanvas>, kCanvas>;
using Patterns = std::array<std::array<Pattern, kStyles>, kClasses>;

// Philox streams differ by seed; `sub` is the example, so that a set with more
// examples begins with those of a smaller one.
enum Seed : uint64_t { kOfPatterns, kOfTrain, kOfTest };

Random Stream(Seed seed, uint32_t sub) {
  return Random({seed, Purpose::kSynthetic, sub});
}

// Between random values on a grid, by bilinear interpolation.
Pattern DrawPattern(Random& random) {
  constexpr uint32_t kGrid = kCanvas / kCell + 1;
  std::array<std::array<uint32_t, kGrid>, kGrid> grid;
  for (auto& row : grid) {
    for (uint32_t& value : row) {
      value = static_cast<uint32_t>(random.Below(256));
    }
  }
  Pattern pattern;
  for (uint32_t y = 0; y < kCanvas; ++y) {
    for (uint32_t x = 0; x < kCanvas; ++x) {
      const auto& above = grid[y / kCell];
      const auto& below = grid[y / kCell + 1];
      const uint32_t i = x / kCell, right = x % kCell, down = y % kCell;
      const uint32_t left = kCell - right, up = kCell - down;
      pattern[y][x] = static_cast<uint8_t>(
          (up * (left * above[i] + right * above[i + 1]) +
           down * (left * below[i] + right * below[i + 1])) /
          (kCell * kCell));
    }
  }
  return pattern;
}

const Patterns& AllPatterns() {
  static const Patterns patterns = [] {
    Patterns drawn;
    Random random = Stream(kOfPatterns, 0);
    for (auto& styles : drawn) {
      for (Pattern& pattern : styles) pattern = DrawPattern(random);
    }
    return drawn;
  }();
  return patterns;
}

void DrawImage(uint32_t label, Random& random, uint8_t* pixels) {
  const auto below = [&](uint32_t bound) {
    return static_cast<uint32_t>(random.Below(bound));
  };
  const Patterns& patterns = AllPatterns();
  const Pattern& own = patterns[label][below(kStyles)];
  const uint32_t other_label = (label + 1 + below(kClasses - 1)) % kClasses;
  const Pattern& other = patterns[other_label][below(kStyles)];
  const int32_t own_share = 16 + static_cast<int32_t>(below(17));  // of 32
  const uint32_t top = below(2 * kReach + 1), left = below(2 * kReach + 1);
  for (uint32_t y = 0; y < kSide; ++y) {
    uint8_t noise[kSide];
    for (uint32_t x = 0; x < kSide; x += 4) StoreLe(random.Word(), noise + x);
    const uint8_t* a = &own[top + y][left];
    const uint8_t* b = &other[top + y][left];
    for (uint32_t x = 0; x < kSide; ++x) {
      const int32_t mixed = (own_share * a[x] + (32 - own_share) * b[x]) / 32;
      pixels[y * kSide + x] =
          static_cast<uint8_t>(std::clamp(mixed + noise[x] - 128, 0, 255));
    }
  }
}

void Generate(Seed seed, uint64_t count, Examples& part) {
  constexpr size_t kImage = kSide * kSide;
  part.pixels.resize(count * kImage);
  part.labels.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    Random random = Stream(seed, static_cast<uint32_t>(i));
    part.labels[i] = static_cast<uint16_t>(i % kClasses);
    DrawImage(part.labels[i], random, part.pixels.data() + i * kImage);
  }
}

}  // namespace

void GenerateSynthetic(uint64_t train_examples, uint64_t test_examples,
                       ImageData& data) {
  Generate(kOfTrain, train_examples, data.train);
  Generate(kOfTest, test_examples, data.test);
}

}  // namespace fedmrn::train
