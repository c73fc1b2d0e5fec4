#include "fedmrn/sim/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fedmrn/core/random.h"

namespace fedmrn::sim {
namespace {

// In no order, as in real data.
std::vector<uint16_t> Labels(size_t count, uint32_t classes) {
  std::vector<uint16_t> labels(count);
  for (size_t i = 0; i < count; ++i) {
    labels[i] = static_cast<uint16_t>(i % classes);
  }
  Random random({7, Purpose::kSynthetic, 0});
  random.Shuffle(std::span(labels));
  return labels;
}

struct Case {
  PartitionSettings settings;
  size_t examples = 60000;
  uint32_t classes = 10;
  std::vector<uint32_t> natural = {};
};

Result<Partition> Make(const Case& c) {
  return MakePartition(c.settings, Labels(c.examples, c.classes), c.classes,
                       c.natural);
}

Partition MustMake(const Case& c) {
  Result<Partition> partition = Make(c);
  EXPECT_TRUE(partition.ok()) << partition.error().message;
  return partition.ok() ? *partition : Partition{};
}

std::string Mistake(const Case& c) {
  const Result<Partition> partition = Make(c);
  return partition.ok() ? "" : partition.error().message;
}

std::set<uint16_t> LabelSet(std::span<const uint32_t> examples,
                            std::span<const uint16_t> labels) {
  std::set<uint16_t> set;
  for (const uint32_t i : examples) set.insert(labels[i]);
  return set;
}

std::vector<size_t> Sizes(const Partition& partition) {
  std::vector<size_t> sizes;
  for (size_t k = 0; k < partition.clients(); ++k) {
    sizes.push_back(partition.of(k).size());
  }
  return sizes;
}

std::vector<PartitionSettings> AllKinds() {
  return {{.kind = PartitionKind::kIid},
          {.kind = PartitionKind::kDirichlet},
          {.kind = PartitionKind::kLabels},
          {.kind = PartitionKind::kLabels, .cyclic = true}};
}

TEST(PartitionTest, EveryExampleOnce) {
  for (PartitionSettings settings : AllKinds()) {
    for (const uint32_t clients : {4u, 100u, 1000u}) {
      settings.clients = clients;
      settings.alpha = 1;
      const Partition partition = MustMake({settings, 60001});
      ASSERT_EQ(partition.clients(), clients);
      EXPECT_EQ(partition.begin.front(), 0u);
      EXPECT_EQ(partition.begin.back(), 60001u);
      std::vector<uint32_t> all = partition.examples;
      std::ranges::sort(all);
      for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
      EXPECT_GE(std::ranges::min(Sizes(partition)), 1u);
    }
  }
}

TEST(PartitionTest, IsAFunctionOfTheSeed) {
  for (PartitionSettings settings : AllKinds()) {
    const Partition a = MustMake({settings}), b = MustMake({settings});
    EXPECT_EQ(a.examples, b.examples);
    EXPECT_EQ(a.begin, b.begin);
    settings.seed = 2;
    EXPECT_NE(MustMake({settings}).examples, a.examples);
  }
}

TEST(PartitionTest, Iid) {
  const Partition partition =
      MustMake({.settings = {.kind = PartitionKind::kIid}, .examples = 73257});
  const std::vector<size_t> sizes = Sizes(partition);
  // SVHN as the authors split it: 57 clients with 733, then 43 with 732.
  for (size_t k = 0; k < 100; ++k) EXPECT_EQ(sizes[k], k < 57 ? 733u : 732u);
  const auto labels = Labels(73257, 10);
  EXPECT_EQ(LabelSet(partition.of(0), labels).size(), 10u);
}

TEST(PartitionTest, CyclicLabels) {
  const auto labels = Labels(60000, 10);
  const Partition partition = MustMake({{.kind = PartitionKind::kLabels,
                                         .labels_per_client = 3,
                                         .cyclic = true}});
  for (size_t k = 0; k < 100; ++k) {
    std::set<uint16_t> expected;
    for (size_t j = 0; j < 3; ++j) expected.insert((3 * k + j) % 10);
    EXPECT_EQ(LabelSet(partition.of(k), labels), expected) << k;
    EXPECT_EQ(partition.of(k).size(), 600u);
  }
  // CIFAR-100: blocks of 20.
  const auto hundred = Labels(50000, 100);
  const Partition blocks = MustMake({{.kind = PartitionKind::kLabels,
                                      .labels_per_client = 20,
                                      .cyclic = true},
                                     50000,
                                     100});
  for (size_t k = 0; k < 100; ++k) {
    const auto set = LabelSet(blocks.of(k), hundred);
    EXPECT_EQ(set.size(), 20u);
    EXPECT_EQ(*set.begin(), 20 * k % 100);
    EXPECT_EQ(*set.rbegin(), 20 * k % 100 + 19);
  }
}

TEST(PartitionTest, RandomLabels) {
  for (const auto& [classes, each] : {std::pair{10u, 3u}, {100u, 20u}}) {
    const auto labels = Labels(60000, classes);
    const Partition partition =
        MustMake({{.kind = PartitionKind::kLabels, .labels_per_client = each},
                  60000,
                  classes});
    std::vector<size_t> holders(classes);
    std::set<std::set<uint16_t>> sets;
    for (size_t k = 0; k < 100; ++k) {
      const auto set = LabelSet(partition.of(k), labels);
      EXPECT_EQ(set.size(), each);
      for (const uint16_t label : set) ++holders[label];
      sets.insert(set);
    }
    for (const size_t count : holders) EXPECT_EQ(count, 100 * each / classes);
    // Cyclic has 10 and 5. Of the 120 sets of three, 100 draws hit about 68.
    EXPECT_GT(sets.size(), 45u);
  }
}

// Mean over clients of the largest label's share.
double Skew(const Partition& partition, std::span<const uint16_t> labels) {
  double sum = 0;
  for (size_t k = 0; k < partition.clients(); ++k) {
    std::vector<double> counts(10);
    for (const uint32_t i : partition.of(k)) ++counts[labels[i]];
    sum +=
        std::ranges::max(counts) / static_cast<double>(partition.of(k).size());
  }
  return sum / static_cast<double>(partition.clients());
}

TEST(PartitionTest, Dirichlet) {
  const auto labels = Labels(60000, 10);
  double last = 1;
  for (const double alpha : {0.1, 0.3, 1.0, 10.0, 1000.0}) {
    const Partition partition =
        MustMake({{.kind = PartitionKind::kDirichlet, .alpha = alpha}});
    const double skew = Skew(partition, labels);
    EXPECT_LT(skew, last - 0.02) << alpha;
    last = skew;
    const auto sizes = Sizes(partition);
    EXPECT_GE(std::ranges::min(sizes), 10u);
    // A client takes no more once it has its fair 600, so it ends with less
    // than 600 and one label's share.
    EXPECT_LT(std::ranges::max(sizes), 600u + 6000u);
    EXPECT_GT(std::ranges::max(sizes), 600u);
  }
  EXPECT_LT(last, 0.13);  // nearly a tenth of each label
  // The paper's settings.
  MustMake({{.kind = PartitionKind::kDirichlet, .alpha = 0.3}, 73257});
  MustMake({{.kind = PartitionKind::kDirichlet, .alpha = 0.2}, 50000, 100});
}

// The first label is divided by plain Dirichlet shares, before any balancing:
// their variance is (1/K)(1 - 1/K) / (K alpha + 1).
TEST(PartitionTest, FirstLabelFollowsDirichlet) {
  const auto labels = Labels(60000, 10);
  constexpr double kClients = 100, kAlpha = 0.5;
  double squares = 0;
  constexpr int kSeeds = 20;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Partition partition =
        MustMake({{.kind = PartitionKind::kDirichlet,
                   .alpha = kAlpha,
                   .min_examples = 1,
                   .seed = static_cast<uint64_t>(seed)}});
    for (size_t k = 0; k < kClients; ++k) {
      const auto of_label = std::ranges::count_if(
          partition.of(k), [&](uint32_t i) { return labels[i] == 0; });
      const double deviation =
          static_cast<double>(of_label) / 6000 - 1 / kClients;
      squares += deviation * deviation / (kSeeds * kClients);
    }
  }
  const double expected =
      1 / kClients * (1 - 1 / kClients) / (kClients * kAlpha + 1);
  EXPECT_NEAR(squares / expected, 1, 0.2);
}

TEST(PartitionTest, Natural) {
  Case c = {.settings = {.kind = PartitionKind::kNatural}, .examples = 6};
  c.natural = {70, 5, 70, 4000000000, 5, 70};
  const Partition partition = MustMake(c);
  EXPECT_EQ(partition.examples, (std::vector<uint32_t>{1, 4, 0, 2, 5, 3}));
  EXPECT_EQ(partition.begin, (std::vector<uint32_t>{0, 2, 5, 6}));
  c.natural = {};
  EXPECT_EQ(Mistake(c),
            "partition.kind: this data does not come with clients of its own: "
            "choose iid, dirichlet or labels instead of natural");
}

TEST(PartitionTest, ManyClients) {
  for (PartitionSettings settings : AllKinds()) {
    settings.clients = 10000;
    settings.alpha = 1;
    settings.min_examples = 0;
    // Six examples each: Dirichlet leaves somebody without any.
    if (settings.kind == PartitionKind::kDirichlet) settings.alpha = 10;
    EXPECT_EQ(MustMake({settings}).clients(), 10000u);
  }
}

TEST(PartitionTest, FewExamples) {
  // Labels that no example has are nobody's.
  const std::vector<uint16_t> labels = {4, 4, 9, 9};
  const auto partition = MakePartition(
      {.kind = PartitionKind::kLabels, .clients = 4, .labels_per_client = 1},
      labels, 10, {});
  ASSERT_TRUE(partition.ok()) << partition.error().message;
  for (size_t k = 0; k < 4; ++k) EXPECT_EQ(partition->of(k).size(), 1u);
}

TEST(PartitionTest, Impossible) {
  EXPECT_EQ(Mistake({.settings = {}, .examples = 0}),
            "there are no examples to divide");
  EXPECT_EQ(Mistake({.settings = {}, .examples = 99}),
            "partition.clients: 100 clients for 99 examples: set it to at most "
            "99");
  EXPECT_EQ(Mistake({{.kind = PartitionKind::kDirichlet}, 500}),
            "partition.min_examples: 100 clients cannot have 10 of 500 "
            "examples each: set it to at most 5 or take fewer clients");
  EXPECT_EQ(Mistake({{.kind = PartitionKind::kDirichlet, .alpha = 1e-300}}),
            "partition.min_examples: 10000 draws left a client with fewer than "
            "10 examples: set it lower, partition.alpha higher, or take fewer "
            "clients");
  EXPECT_EQ(
      Mistake({{.kind = PartitionKind::kLabels, .labels_per_client = 11}}),
      "partition.labels_per_client: 11 labels for each client, but the "
      "examples have 10: set it from 1 to 10");
  EXPECT_EQ(Mistake({{.kind = PartitionKind::kLabels, .clients = 3}}),
            "partition.labels_per_client: 3 clients with 3 labels each leave "
            "some of the 10 labels to nobody: set it to at least 4 or take "
            "more clients");
  // Forty clients for the four examples of label 0.
  std::vector<uint16_t> labels(100, 1);
  for (size_t i = 0; i < 4; ++i) labels[i] = 0;
  const auto partition = MakePartition(
      {.kind = PartitionKind::kLabels, .clients = 80, .labels_per_client = 1},
      labels, 2, {});
  ASSERT_FALSE(partition.ok());
  EXPECT_TRUE(partition.error().message.ends_with(
      "would have no example: take fewer clients or more examples"));
}

TEST(PartitionTest, HoldsOutAShareOfEachClient) {
  for (const PartitionSettings& settings : AllKinds()) {
    const Partition whole = MustMake({settings});
    Partition rest = whole;
    const Result<Partition> held = HoldOut(0.1, settings, rest);
    ASSERT_TRUE(held);
    ASSERT_EQ(rest.clients(), whole.clients());
    std::vector<uint32_t> all = held->examples;
    for (size_t k = 0; k < whole.clients(); ++k) {
      const size_t size = whole.of(k).size();
      EXPECT_EQ(rest.of(k).size(), size - size / 10);
      EXPECT_TRUE(std::ranges::is_sorted(rest.of(k)));
      EXPECT_TRUE(std::ranges::includes(whole.of(k), rest.of(k)));
      EXPECT_TRUE(std::ranges::includes(whole.of(k), held->of(k)));
    }
    // Nothing is lost, nobody trains on what is held out.
    all.insert(all.end(), rest.examples.begin(), rest.examples.end());
    std::ranges::sort(all);
    EXPECT_EQ(all.size(), 60000u);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    // Another division of the same.
    PartitionSettings other = settings;
    other.seed = 2;
    Partition again = whole;
    EXPECT_NE(HoldOut(0.1, other, again)->examples, held->examples);
  }
  // A client with too few gives none, but somebody must.
  Partition few = {{0, 1, 2, 3, 4, 5}, {0, 1, 6}};
  EXPECT_EQ(HoldOut(0.2, {}, few)->begin, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(few.of(0).size(), 1u);
  few = {{0, 1, 2}, {0, 1, 2, 3}};
  const Result<Partition> none = HoldOut(0.9, {}, few);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().message.starts_with("data.validation: "));
}

}  // namespace
}  // namespace fedmrn::sim
