#include "fedmrn/sim/sampling.h"

#include <cmath>
#include <set>

#include "fedmrn/core/test_util.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::sim {
namespace {

using Ids = std::vector<uint32_t>;

TEST(SampleClients, KnownSample) {
  EXPECT_EQ(SampleClients(1, 1, 0, 100, 10),
            (Ids{8, 17, 34, 43, 54, 55, 57, 71, 82, 93}));
  EXPECT_EQ(SampleClients(1, 2, 3, 10, 4), (Ids{1, 3, 6, 8}));
  EXPECT_EQ(SampleClients(5, 1, 0, 4, 4), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(SampleClients(5, 1, 0, 1, 1), (Ids{0}));
}

TEST(SampleClients, DistinctAndRising) {
  std::set<Ids> samples;
  for (uint32_t round = 1; round <= 100; ++round) {
    for (uint32_t attempt = 0; attempt < 3; ++attempt) {
      for (uint64_t seed : {1, 2}) {
        const Ids sample = SampleClients(seed, round, attempt, 100, 10);
        ASSERT_EQ(sample.size(), 10u);
        for (size_t i = 1; i < sample.size(); ++i) {
          ASSERT_LT(sample[i - 1], sample[i]);
        }
        ASSERT_LT(sample.back(), 100u);
        EXPECT_EQ(sample, SampleClients(seed, round, attempt, 100, 10));
        samples.insert(sample);
      }
    }
  }
  EXPECT_EQ(samples.size(), 600u) << "rounds, attempts and seeds differ";
}

// Chi-square with 19 degrees of freedom: mean 19; above 50 or below 5 once in
// some 5,000. The sample is without replacement, which makes it smaller.
TEST(SampleClients, EveryClientEquallyOften) {
  constexpr uint32_t kClients = 20, kSampled = 5, kRounds = 4000;
  for (const uint32_t attempt : {0, 1}) {
    std::vector<double> counts(kClients);
    for (uint32_t round = 1; round <= kRounds; ++round) {
      for (uint32_t c : SampleClients(7, round, attempt, kClients, kSampled)) {
        ++counts[c];
      }
    }
    constexpr double kExpected = double{kRounds} * kSampled / kClients;
    double chi_square = 0;
    for (const double count : counts) {
      chi_square += (count - kExpected) * (count - kExpected) / kExpected;
    }
    chi_square *= double{kClients - 1} / (kClients - kSampled);
    EXPECT_LT(chi_square, 50);
    EXPECT_GT(chi_square, 5);
  }
}

TEST(SampleByExamples, DistinctRisingAndAFunctionOfTheRound) {
  const std::vector<uint32_t> examples = {5, 1, 100, 20, 20, 1, 3, 50, 9, 11};
  std::set<Ids> samples;
  for (uint32_t round = 1; round <= 50; ++round) {
    for (const uint32_t attempt : {0, 1}) {
      const Ids sample = SampleByExamples(1, round, attempt, examples, 4);
      ASSERT_EQ(sample.size(), 4u);
      for (size_t i = 1; i < sample.size(); ++i) {
        ASSERT_LT(sample[i - 1], sample[i]);
      }
      ASSERT_LT(sample.back(), examples.size());
      EXPECT_EQ(sample, SampleByExamples(1, round, attempt, examples, 4));
      samples.insert(sample);
    }
  }
  EXPECT_GT(samples.size(), 20u);
  EXPECT_EQ(SampleByExamples(1, 1, 0, examples, 10), AllClients(10));
  EXPECT_EQ(AllClients(3), (Ids{0, 1, 2}));
}

// Who is sampled more often is not weighted once more, unless told so.
TEST(SampleByExamples, WeightsAreThenEqual) {
  const auto rounds_of = [](const std::vector<std::string>& settings) {
    return ParseConfig("", "", settings).value().rounds;
  };
  EXPECT_EQ(rounds_of({}).weight, ClientWeight::kExamples);
  EXPECT_EQ(rounds_of({"rounds.sampling=all"}).weight, ClientWeight::kExamples);
  EXPECT_EQ(rounds_of({"rounds.sampling=weighted"}).weight,
            ClientWeight::kEqual);
  EXPECT_EQ(
      rounds_of({"rounds.sampling=weighted", "rounds.weight=batches"}).weight,
      ClientWeight::kBatches);
  EXPECT_EQ(rounds_of({"rounds.sampling=all", "partition.clients=7"})
                .clients_per_round,
            7u);
}

// Two are drawn without replacement: client k comes first with chance p_k,
// second with the sum over others j of p_j p_k / (1 - p_j).
TEST(SampleByExamples, InProportionToExamples) {
  const std::vector<uint32_t> examples = {10, 20, 30, 40};
  constexpr int kRounds = 20000;
  std::vector<double> counts(4);
  for (uint32_t round = 1; round <= kRounds; ++round) {
    for (uint32_t c : SampleByExamples(7, round, 0, examples, 2)) ++counts[c];
  }
  for (size_t k = 0; k < 4; ++k) {
    const double p = examples[k] / 100.0;
    double chance = p;
    for (size_t j = 0; j < 4; ++j) {
      const double q = examples[j] / 100.0;
      if (j != k) chance += q * p / (1 - q);
    }
    // Four standard deviations.
    EXPECT_NEAR(counts[k] / kRounds, chance,
                4 * std::sqrt(chance * (1 - chance) / kRounds))
        << k;
  }
}

}  // namespace
}  // namespace fedmrn::sim
