// The real sets where they are installed: Fashion-MNIST and CIFAR-10 in the
// usual places, the others in folders of their names below $FEDMRN_DATA.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/data/shakespeare.h"

namespace fedmrn::train {
namespace {

// Its folder, or nothing.
std::string Installed(const char* name) {
  const char* root = std::getenv("FEDMRN_DATA");
  if (root == nullptr) return "";
  const std::string dir = (std::filesystem::path(root) / name).string();
  const auto found = FindData(*FindDataSet(name), dir);
  return found && found->missing.empty() ? dir : "";
}

std::vector<uint64_t> ClassCounts(const Examples& part, uint32_t classes) {
  std::vector<uint64_t> counts(classes);
  for (uint16_t label : part.labels) ++counts[label];
  return counts;
}

TEST(RealData, FashionMnist) {
  const DataSet& set = *FindDataSet("fmnist");
  if (!FindData(set, set.system_dir)) {
    GTEST_SKIP() << "no Fashion-MNIST: apt install dataset-fashion-mnist";
  }
  const auto data = LoadImages({"fmnist", set.system_dir, 0, 0});
  ASSERT_TRUE(data) << data.error().ToString();
  EXPECT_EQ(ClassCounts(data->train, 10), std::vector<uint64_t>(10, 6000));
  EXPECT_EQ(ClassCounts(data->test, 10), std::vector<uint64_t>(10, 1000));
  // An ankle boot and a T-shirt, as everybody's plots show.
  EXPECT_EQ(data->train.labels[0], 9);
  EXPECT_EQ(data->train.labels[1], 0);
  uint64_t sum = 0;
  for (uint8_t pixel : data->train.pixels) sum += pixel;
  EXPECT_NEAR(static_cast<double>(sum) / 255 / (60000.0 * 784),
              data->train.mean[0], 5e-5);
  EXPECT_FLOAT_EQ(data->train.std[0], .3530f);
  EXPECT_FLOAT_EQ(data->test.mean[0], .2868f);
  EXPECT_FLOAT_EQ(data->test.std[0], .3524f);
}

TEST(RealData, Svhn) {
  const std::string dir = Installed("svhn");
  if (dir.empty()) GTEST_SKIP() << "no svhn/ in $FEDMRN_DATA";
  const auto data = LoadImages({"svhn", dir, 0, 0});
  ASSERT_TRUE(data) << data.error().ToString();
  EXPECT_GE(data->train.size(), 20000u);
  EXPECT_GE(data->test.size(), 6000u);
  // The first label of the set is 1; ones are the most frequent digit.
  EXPECT_EQ(data->train.labels[0], 1);
  const auto counts = ClassCounts(data->train, 10);
  EXPECT_EQ(std::max_element(counts.begin(), counts.end()) - counts.begin(), 1);
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 1000u);
  // Neighbours in a row are alike; in a wrong order they would not be.
  uint64_t along = 0, across = 0;
  for (size_t at = 0; at + 96 < 3072 * 100; ++at) {
    along += static_cast<uint64_t>(
        std::abs(data->train.pixels[at] - data->train.pixels[at + 3]));
    across += static_cast<uint64_t>(
        std::abs(data->train.pixels[at] - data->train.pixels[at + 1]));
  }
  EXPECT_LT(along, across);
}

TEST(RealData, Cifar100) {
  const std::string dir = Installed("cifar100");
  if (dir.empty()) GTEST_SKIP() << "no cifar100/ in $FEDMRN_DATA";
  const auto data = LoadImages({"cifar100", dir, 0, 0});
  ASSERT_TRUE(data) << data.error().ToString();
  EXPECT_TRUE(data->augment);
  const auto train = ClassCounts(data->train, 100);
  const auto test = ClassCounts(data->test, 100);
  EXPECT_EQ(train, std::vector<uint64_t>(100, train[0]));
  EXPECT_EQ(test, std::vector<uint64_t>(100, test[0]));
  EXPECT_EQ(train[0], 5 * test[0]);
}

TEST(RealData, Cifar10) {
  const DataSet& set = *FindDataSet("cifar10");
  const auto found = FindData(set, "");
  if (!found || !found->missing.empty()) {
    GTEST_SKIP() << "no CIFAR-10: fedmrn data get cifar10";
  }
  const auto data = LoadImages({"cifar10", "", 0, 0});
  ASSERT_TRUE(data) << data.error().ToString();
  EXPECT_EQ(ClassCounts(data->train, 10), std::vector<uint64_t>(10, 5000));
  EXPECT_EQ(ClassCounts(data->test, 10), std::vector<uint64_t>(10, 1000));
  // A frog, a truck; a cat, a ship.
  EXPECT_EQ(data->train.labels[0], 6);
  EXPECT_EQ(data->train.labels[1], 9);
  EXPECT_EQ(data->test.labels[0], 3);
  EXPECT_EQ(data->test.labels[1], 8);
}

TEST(RealData, Voc) {
  const std::string dir = Installed("voc");
  if (dir.empty()) GTEST_SKIP() << "no voc/ in $FEDMRN_DATA";
  DataSettings settings;
  settings.name = "voc";
  settings.dir = dir;
  // Enough for every class; the complete set would take its time.
  settings.train_examples = 200;
  settings.test_examples = 60;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_TRUE(data->notes.empty());
  EXPECT_EQ(data->train_examples, 200u);
  EXPECT_EQ(data->test_examples, 60u);
  const std::set<uint16_t> seen(data->labels.begin(), data->labels.end());
  EXPECT_EQ(seen.size(), 20u);
  Batch batch;
  const uint32_t some[] = {0, 199};
  data->train_batch(some, {7, Purpose::kAugment, 0}, batch);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{2, 480, 480, 3}));
  data->test_batch(59, 1, batch);
  EXPECT_EQ(batch.shape[1] % 32, 0);
  EXPECT_EQ(batch.labels.size() * 3, batch.x.size());
  EXPECT_GT(
      std::ranges::count_if(batch.labels, [](int32_t c) { return c >= 0; }), 0);
}

std::string Unpacked(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  std::string text, block(1 << 20, ' ');
  int got;
  while ((got = gzread(file, block.data(), 1 << 20)) > 0) {
    text.append(block, 0, static_cast<size_t>(got));
  }
  gzclose(file);
  return text;
}

TEST(RealData, ShakespearesRolesAreLeafs) {
  const std::string dir = Installed("shakespeare");
  if (dir.empty() || !std::filesystem::exists(dir + "/pg100.txt.gz") ||
      !std::filesystem::exists(dir + "/leaf_roles.tsv.gz")) {
    GTEST_SKIP() << "no shakespeare/pg100.txt.gz and leaf_roles.tsv.gz in "
                    "$FEDMRN_DATA";
  }
  const auto roles = ParsePlays(Unpacked(dir + "/pg100.txt.gz"));
  ASSERT_TRUE(roles) << roles.error().message;
  std::istringstream expected(Unpacked(dir + "/leaf_roles.tsv.gz"));
  size_t count = 0, windows = 0;
  for (const Role& role : *roles) {
    if (role.text.size() <= kWindow) continue;  // no window
    std::string line;
    ASSERT_TRUE(std::getline(expected, line)) << role.name;
    ASSERT_EQ(role.name + "\t" + role.text, line);
    ++count;
    windows += role.text.size() - kWindow;
  }
  EXPECT_TRUE(expected.peek() == EOF);
  EXPECT_EQ(count, 1129u);
  EXPECT_EQ(windows, 4226158u);
}

TEST(RealData, ShakespeareIsSampledAndSplit) {
  DataSettings settings;
  settings.name = "shakespeare";
  settings.dir = Installed("shakespeare");
  if (!std::filesystem::exists(settings.dir + "/pg100.txt.gz")) {
    GTEST_SKIP() << "no shakespeare/pg100.txt.gz in $FEDMRN_DATA";
  }
  settings.fraction = 1;
  const auto all = LoadData(settings);
  ASSERT_TRUE(all) << all.error().message;
  const DataSet& set = *FindDataSet("shakespeare");
  EXPECT_EQ(all->train_examples, set.train_examples);
  EXPECT_EQ(all->test_examples, set.test_examples);
  // 660 is the number that LEAF leaves.
  EXPECT_EQ(all->notes, std::vector<std::string>{
                            "shakespeare: 660 roles, 3678451 training and "
                            "356921 test windows"});
  settings.fraction = .2;
  const auto fifth = LoadData(settings);
  ASSERT_TRUE(fifth);
  // 845231 windows, but for the roles that are too short and the gaps.
  EXPECT_LT(fifth->train_examples, 845231 * .9);
  EXPECT_GT(fifth->train_examples, 845231 * .85);
}

}  // namespace
}  // namespace fedmrn::train
