#include "fedmrn/sim/grid.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace fedmrn::sim {
namespace {

using Names = std::vector<std::string>;

constexpr char kGridExample[] = R"(summary = "Two methods, two partitions"
[data]
name = "synthetic"
[rounds]
weight = "batches"

[variants.partition.noniid]
partition.kind = "dirichlet"
[variants.partition.iid]
partition.kind = "iid"
[variants.method.fedmrn]
method.name = "fedmrn"
[variants.method.fedavg]
method.name = "fedavg"
rounds.weight = "examples"
train.epochs = 3

[profiles.quick]
rounds.count = 20
train.epochs = 2
[profiles.paper]
seed = [7, 5]
only.partition = ["iid"]
)";

Result<Grid> Parse(std::string_view text, const GridOptions& options = {}) {
  return ParseGrid(text, "g.toml", options);
}

Grid MustParseGrid(std::string_view text, const GridOptions& options = {}) {
  Result<Grid> grid = Parse(text, options);
  EXPECT_TRUE(grid.ok()) << grid.error().message;
  return grid.ok() ? *grid : Grid{};
}

std::string GridMistakes(std::string_view text,
                         const GridOptions& options = {}) {
  const Result<Grid> grid = Parse(text, options);
  return grid.ok() ? "" : grid.error().message;
}

Names RunNames(const Grid& grid) {
  Names names;
  for (const GridRun& run : grid.runs) names.push_back(run.name);
  return names;
}

TEST(GridTest, AxesInTheOrderOfTheFile) {
  const Grid grid = MustParseGrid(kGridExample);
  EXPECT_EQ(grid.summary, "Two methods, two partitions");
  EXPECT_EQ(grid.profile, "quick");
  EXPECT_EQ(grid.profiles, (Names{"quick", "paper"}));
  EXPECT_EQ(grid.axes, (Names{"partition", "method", "seed"}));
  EXPECT_EQ(RunNames(grid), (Names{"noniid-fedmrn-seed1", "noniid-fedavg-seed1",
                                   "iid-fedmrn-seed1", "iid-fedavg-seed1"}));
  using Labels = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(
      grid.runs[1].labels,
      (Labels{{"partition", "noniid"}, {"method", "fedavg"}, {"seed", "1"}}));
}

TEST(GridTest, ProfilesWinOverVariantsAndSettingsOverAll) {
  const Grid grid =
      MustParseGrid(kGridExample, {.settings = {"rounds.count=9"}});
  const Config& fedmrn = grid.runs[2].config;
  EXPECT_EQ(fedmrn.data.name, "synthetic");
  EXPECT_EQ(fedmrn.partition.kind, PartitionKind::kIid);
  EXPECT_EQ(fedmrn.rounds.weight, ClientWeight::kBatches);
  EXPECT_EQ(fedmrn.rounds.count, 9u);
  EXPECT_EQ(fedmrn.train.epochs, 2u);
  EXPECT_EQ(fedmrn.train.lr, 0.1f);  // the method's own
  const Config& fedavg = grid.runs[3].config;
  EXPECT_EQ(fedavg.rounds.weight, ClientWeight::kExamples);
  EXPECT_EQ(fedavg.train.epochs, 2u);
  EXPECT_EQ(MustParseGrid(kGridExample, {.profile = "paper"})
                .runs[2]
                .config.train.epochs,
            3u);
  EXPECT_EQ(fedavg.train.lr, 0.03f);
  const Grid set =
      MustParseGrid(kGridExample, {.settings = {"train.epochs=1"}});
  for (const GridRun& run : set.runs) EXPECT_EQ(run.config.train.epochs, 1u);
}

TEST(GridTest, ProfilesChooseSeedsAndValues) {
  const Grid grid = MustParseGrid(kGridExample, {.profile = "paper"});
  EXPECT_EQ(RunNames(grid), (Names{"iid-fedmrn-seed7", "iid-fedmrn-seed5",
                                   "iid-fedavg-seed7", "iid-fedavg-seed5"}));
  EXPECT_EQ(grid.runs[1].config.seed, 5u);
  EXPECT_EQ(grid.runs[1].config.rounds.count, Config{}.rounds.count);
  // The command line wins over the profile's choice; a scalar replaces a list.
  EXPECT_EQ(RunNames(MustParseGrid(
                kGridExample, {.profile = "paper",
                               .only = {"partition=noniid",
                                        "method=fedavg,fedmrn", "seed=5"}})),
            (Names{"noniid-fedmrn-seed5", "noniid-fedavg-seed5"}));
  EXPECT_EQ(RunNames(MustParseGrid(kGridExample, {.profile = "paper",
                                                  .only = {"method=fedavg"},
                                                  .settings = {"seed=3"}})),
            (Names{"iid-fedavg-seed3"}));
}

TEST(GridTest, NumbersAsPeopleWriteThem) {
  EXPECT_EQ(RunNames(MustParseGrid("[method]\nmagnitude = [0.000625, 0.0025]",
                                   {.only = {"magnitude=0.0025,0.000625"}})),
            (Names{"magnitude0.000625-seed1", "magnitude0.0025-seed1"}));
}

TEST(GridTest, ListsAreAxes) {
  const Grid grid = MustParseGrid(R"(seed = [2, 1]
train.lr = [0.10, 1]
[method]
noise = ["uniform", "gaussian"]
stochastic = [true, false]
)",
                                  {.only = {"noise=gaussian", "lr=1"}});
  EXPECT_EQ(grid.axes, (Names{"lr", "noise", "stochastic", "seed"}));
  EXPECT_EQ(RunNames(grid), (Names{"lr1-gaussian-stochastictrue-seed2",
                                   "lr1-gaussian-stochastictrue-seed1",
                                   "lr1-gaussian-stochasticfalse-seed2",
                                   "lr1-gaussian-stochasticfalse-seed1"}));
  EXPECT_EQ(grid.runs[3].config.train.lr, 1);
  EXPECT_FALSE(grid.runs[3].config.method.mask.stochastic);
  // A scalar takes the place of a list, and a list that of a scalar.
  constexpr char kReplaced[] = R"(train.lr = [0.1, 0.3]
train.epochs = 1
[profiles.p]
train.lr = 0.5
train.epochs = [1, 2]
)";
  EXPECT_EQ(RunNames(MustParseGrid(kReplaced)),
            (Names{"epochs1-seed1", "epochs2-seed1"}));
  EXPECT_EQ(
      RunNames(MustParseGrid(kReplaced, {.settings = {"train.epochs=4"}})),
      (Names{"seed1"}));
  // Two keys of the same name are told apart.
  EXPECT_EQ(MustParseGrid("data.name = [\"synthetic\", \"svhn\"]\n"
                          "method.name = [\"fedavg\"]")
                .axes,
            (Names{"data.name", "method.name", "seed"}));
}

TEST(GridTest, AxesOfTheCommandLine) {
  const Grid grid = MustParseGrid(
      "train.lr = 7", {.lists = {"lr=1,0.3", "method.noise=gaussian"}});
  EXPECT_EQ(RunNames(grid),
            (Names{"lr1-gaussian-seed1", "lr0.3-gaussian-seed1"}));
  EXPECT_EQ(grid.runs[1].config.train.lr, 0.3f);
  EXPECT_EQ(GridMistakes("", {.lists = {"lr"}}),
            "--grid lr: must be KEY=VALUE,..., such as lr=1,0.3,0.1");
  EXPECT_EQ(GridMistakes("", {.lists = {"name=a"}}),
            "--grid name=a: name: which one? There are data.name, model.name, "
            "method.name");
  EXPECT_EQ(GridMistakes("", {.lists = {"lrr=1,2"}}),
            "--grid lrr=1,2: lrr: unknown key, did you mean train.lr?");
  EXPECT_EQ(GridMistakes("", {.lists = {"lr=1,,2"}}),
            "--grid lr=1,,2: train.lr: must be a number above 0, not \"\" (in "
            "lr-seed1)");
}

TEST(GridTest, AConfigIsAGrid) {
  const Grid grid = MustParseGrid("[rounds]\ncount = 3\n");
  EXPECT_EQ(grid.profile, "");
  EXPECT_EQ(RunNames(grid), Names{"seed1"});
  EXPECT_EQ(grid.runs[0].config.rounds.count, 3u);
}

TEST(GridTest, ValuesAreTakenAsTheyStand) {
  const Grid grid = MustParseGrid(R"([variants.dir.a]
data.dir = "a \"b\"\n\t\u0001\u007f 'c' \\ é"
[variants.dir.b]
data.dir = '''
x\"""'''
[variants.dir.c]
data.dir = ""
[variants.dir.d]
data.dir = "two\nlines of '''"
[variants.lr.big]
train.lr = 1_000e3
)");
  ASSERT_EQ(grid.runs.size(), 4u);
  EXPECT_EQ(grid.runs[0].config.data.dir, "a \"b\"\n\t\x01\x7f 'c' \\ é");
  EXPECT_EQ(grid.runs[1].config.data.dir, "x\\\"\"\"");
  EXPECT_EQ(grid.runs[2].config.data.dir, "");
  EXPECT_EQ(grid.runs[3].config.data.dir, "two\nlines of '''");
  EXPECT_EQ(grid.runs[0].config.train.lr, 1e6);
}

TEST(GridTest, MistakesNameTheirLineOnce) {
  struct Case {
    std::string text, mistakes;
    GridOptions options = {};
  };
  const std::vector<Case> cases = {
      {"a = = 1",
       "g.toml:1: not TOML: Error while parsing value: could not determine "
       "value type"},
      {"seed = [1, 2]\ntrain.lrr = 1\n[rounds]\ncount = 0\n",
       "g.toml:2: train.lrr: unknown key, did you mean train.lr?\n"
       "g.toml:4: rounds.count: must be an integer of at least 1, not 0"},
      {"train.lr = [0.1, -1]\nseed = [1, 2]",
       "g.toml:1: train.lr: must be a number above 0, not -1 (in lr-1-seed1 "
       "and 1 more)"},
      {"seed = \"x\"",
       "g.toml:1: seed: must be an integer of at least 0, not "
       "\"x\""},
      {"train.lr = []",
       "g.toml:1: train.lr: has no values; give it at least one"},
      {"[variants.method]\n",
       "g.toml:1: variants.method: has no values; give it at least one"},
      {"[variants.method.a]\ntrain.lr = [1]",
       "g.toml:2: train.lr: a variant has one value of a key; lists stand "
       "outside of variants"},
      {"[variants.method.a]\nmethod.nmae = \"x\"\n[variants.method.b]",
       "g.toml:2: method.nmae: unknown key, did you mean method.name? (in "
       "a-seed1)"},
      {"[variants.method]\na = 1",
       "g.toml:2: variants.method.a: is a section: write [variants.method.a] "
       "and its keys below\n"
       "g.toml:1: variants.method: has no values; give it at least one"},
      {"[variants.method.a]\nseed = 4",
       "g.toml:2: seed: is an axis of its own; a variant cannot set it"},
      {"[variants.seed.a]\n",
       "g.toml:1: variants.seed: the seed is an axis of its own: write seed = "
       "[1, 2]"},
      {"train.lr = [1, 2]\n[variants.x.a]\ntrain.lr = 4",
       "g.toml:3: train.lr: is an axis of its own; a variant cannot set it"},
      {"[variant.x.a]\n",
       "g.toml:1: variant: unknown section, did you mean variants?"},
      {"profiles = 1",
       "g.toml:1: profiles: is a section: write "
       "[profiles.NAME] and its keys below"},
      {"summary = 1", "g.toml:1: summary: must be text in quotes"},
      {"[profiles.p]\nonly.method = \"a\"",
       "g.toml:2: only.method: must be a list of values"},
      {"[variants.x.a]\n[profiles.p]\nonly.x = [\"b\"]",
       "g.toml:3: x has no b; it has a"},
      {"train.lr = [[1, 2]]",
       "g.toml:1: train.lr: must be a number above 0, not a list"},
      {"train.lr = [{a = 1}]",
       "g.toml:1: train.lr: must be a number above 0, not a section"},
      {"train.lr = 1979-05-27T07:32:00Z",
       "g.toml:1: train.lr: must be a number above 0, not a date or time"},
      {"train.lr = inf",
       "g.toml:1: train.lr: must be a number above 0, not inf"},
      {"[[data]]\nname = 1",
       "g.toml:1: data: unknown key; only seed stands outside of sections"},
      // One of the combinations.
      {"rounds.clients_per_round = [5, 50]\npartition.clients = [10, 100]",
       "g.toml:1: rounds.clients_per_round: 50 of 10 clients in a round: set "
       "rounds.clients_per_round to at most 10 or partition.clients to at "
       "least 50 (in clients_per_round50-clients10-seed1)"},
      // Names.
      {"data.dir = [\"a/b\"]",
       "g.toml:1: \"a/b\": is no name for a folder of results: letters, "
       "digits and ._+- are; [variants.AXIS.NAME] gives values names"},
      {"[variants.a.x-y]\ntrain.lr = 1\n[variants.a.x]\ntrain.lr = 2\n"
       "[variants.b.z]\ntrain.epochs = 1\n[variants.b.y-z]\ntrain.epochs = 2",
       "g.toml: two runs have the name x-y-z-seed1"},
      {"[variants.a.x]\ntrain.lr = 2\n[variants.a.y]\ntrain.lr = 2.0",
       "g.toml: x-seed1 and y-seed1 have the same config"},
      {"seed = [1, 1]", "g.toml: two runs have the name seed1"},
      // The command line.
      {"",
       "--set x: must be KEY=VALUE, such as train.lr=0.1",
       {.settings = {"x"}}},
      {"",
       "--set train.lr=[1, 2]: train.lr: must be a number above 0, not a "
       "list",
       {.settings = {"train.lr=[1, 2]"}}},
      {"", "--profile p: g.toml has no profiles", {.profile = "p"}},
      {kGridExample,
       "--profile slow: g.toml has the profiles quick, paper",
       {.profile = "slow"}},
      {kGridExample,
       "--only methods=fedavg: there is no axis methods; there are "
       "partition, method, seed, did you mean method?",
       {.only = {"methods=fedavg"}}},
      {kGridExample,
       "--only method=fedvag: method has no fedvag; it has fedmrn, "
       "fedavg, did you mean fedavg?",
       {.only = {"method=fedvag"}}},
      {kGridExample,
       "--only method: must be AXIS=VALUE,..., such as "
       "method=fedavg,fedmrn",
       {.only = {"method"}}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(GridMistakes(c.text, c.options), c.mistakes) << c.text;
  }
  std::string many = "1";
  for (int i = 2; i <= 400; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(GridMistakes("seed = [" + many + "]\ntrain.batch = [" + many + "]"),
            "g.toml: more than 100000 runs; --only narrows it");
}

// Whatever is shipped must load, in every profile.
TEST(GridTest, ShippedGrids) {
  const std::filesystem::path folder = FEDMRN_SOURCE_DIR "/configs/grids";
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Result<Grid> grid = LoadGrid(entry.path().string(), {});
    ASSERT_TRUE(grid.ok()) << grid.error().message;
    EXPECT_NE(grid->summary, "") << entry.path();
    for (const std::string& profile : grid->profiles) {
      const Result<Grid> other =
          LoadGrid(entry.path().string(), {.profile = profile});
      EXPECT_TRUE(other.ok()) << profile << ": " << other.error().message;
    }
  }
}

}  // namespace
}  // namespace fedmrn::sim
