#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "fedmrn/core/random.h"
#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/data/npz_file.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

using Members = std::vector<std::pair<std::string, Bytes>>;

Bytes Header(const std::string& text, int version = 1) {
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<uint8_t>(version),
                 0};
  if (version == 1) {
    AppendLe(static_cast<uint16_t>(text.size()), bytes);
  } else {
    AppendLe(static_cast<uint32_t>(text.size()), bytes);
  }
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

template <typename T>
Bytes Npy(const std::string& type, const std::string& shape,
          const std::vector<T>& values, int version = 1) {
  Bytes bytes =
      Header("{'descr': '" + type +
                 "', 'fortran_order': False, 'shape': " + shape + ", }   \n",
             version);
  AppendLe(std::span<const T>(values), bytes);
  return bytes;
}

template <typename T>
std::vector<T> Counting(size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i);
  return values;
}

DataSettings NpzSettings(const std::string& path,
                         const std::string& test_path = {}) {
  DataSettings settings;
  settings.name = "npz";
  settings.path = path;
  settings.test_path = test_path;
  return settings;
}

class NpzTest : public FolderTest {
 protected:
  std::string WriteNpz(const std::string& name, const Members& arrays,
                       bool deflate = true) const {
    const std::string path = (dir_ / name).string();
    archive* zip = archive_write_new();
    archive_write_set_format_zip(zip);
    if (deflate) {
      archive_write_zip_set_compression_deflate(zip);
    } else {
      archive_write_zip_set_compression_store(zip);
    }
    EXPECT_EQ(archive_write_open_filename(zip, path.c_str()), ARCHIVE_OK);
    for (const auto& [array, bytes] : arrays) {
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, (array + ".npy").c_str());
      archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0644);
      EXPECT_EQ(archive_write_header(zip, entry), ARCHIVE_OK);
      EXPECT_EQ(archive_write_data(zip, bytes.data(), bytes.size()),
                static_cast<la_ssize_t>(bytes.size()));
      archive_entry_free(entry);
    }
    EXPECT_EQ(archive_write_free(zip), ARCHIVE_OK);
    return path;
  }

  // What is said of these arrays, without the file's name.
  std::string Complaint(const Members& arrays) const {
    const std::string path = WriteNpz("bad.npz", arrays);
    const auto data = LoadData(NpzSettings(path));
    if (data) return "";
    const std::string& message = data.error().message;
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return message.substr(std::min(message.size(), path.size() + 2));
  }
};

const Bytes kLabels = Npy<int64_t>("<i8", "(20,)", Counting<int64_t>(20));
const Bytes kNumbers = Npy<float>("<f4", "(20, 2)", Counting<float>(40));

TEST_F(NpzTest, ReadsEveryTypeAndVersion) {
  static constexpr const char* kNames[] = {"x"};
  const auto read = [&](const Bytes& array, bool deflate = true) {
    auto arrays = ReadNpz(WriteNpz("a.npz", {{"x", array}}, deflate), kNames);
    EXPECT_TRUE(arrays) << arrays.error().message;
    return (*arrays)["x"];
  };
  for (const int version : {1, 2, 3}) {
    for (const bool deflate : {true, false}) {
      const NpyArray array = read(
          Npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6.5}, version), deflate);
      EXPECT_EQ(array.shape, (std::vector<uint64_t>{2, 3}));
      EXPECT_EQ(array.Float(5), 6.5f);
    }
  }
  EXPECT_EQ(read(Npy<double>("<f8", "(2,)", {-0.5, 1e300})).Float(0), -0.5f);
  EXPECT_TRUE(
      std::isinf(read(Npy<double>("<f8", "(2,)", {0, 1e300})).Float(1)));
  EXPECT_EQ(read(Npy<uint16_t>("<f2", "(1,)", {0xC500})).Float(0), -5.0f);
  EXPECT_EQ(read(Npy<int8_t>("|i1", "(1,)", {-7})).Integer(0), -7);
  EXPECT_EQ(read(Npy<uint8_t>("|u1", "(1,)", {200})).Integer(0), 200);
  EXPECT_EQ(read(Npy<uint8_t>("|b1", "(2,)", {0, 1})).Integer(1), 1);
  EXPECT_EQ(read(Npy<int16_t>("<i2", "(1,)", {-300})).Integer(0), -300);
  EXPECT_EQ(read(Npy<uint16_t>("<u2", "(1,)", {60000})).Integer(0), 60000);
  EXPECT_EQ(read(Npy<int32_t>("<i4", "(1,)", {-70000})).Integer(0), -70000);
  EXPECT_EQ(read(Npy<uint32_t>("<u4", "(1,)", {~0u})).Integer(0), 4294967295);
  EXPECT_EQ(read(Npy<int64_t>("<i8", "(1,)", {-1})).Integer(0), -1);
  EXPECT_EQ(read(Npy<uint64_t>("<u8", "(1,)", {~uint64_t{0}})).Integer(0),
            std::numeric_limits<int64_t>::max());
}

TEST_F(NpzTest, NumbersAndClasses) {
  const auto data = LoadData(
      NpzSettings(WriteNpz("a.npz", {{"x", kNumbers}, {"y", kLabels}})));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->input, Input::kNumbers);
  EXPECT_EQ(data->target, Target::kClass);
  EXPECT_EQ(data->shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(data->classes, 20u);  // also those that are held out
  EXPECT_EQ(data->train_examples, 18u);
  EXPECT_EQ(data->test_examples, 2u);
  EXPECT_TRUE(data->clients.empty());
  EXPECT_EQ(data->labels[8], 8);
  EXPECT_EQ(data->labels[9], 10);  // the tenth is held out
  Batch batch;
  data->test_batch(0, 2, batch);
  EXPECT_EQ(batch.examples, 2u);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{9, 19}));
  EXPECT_EQ(batch.x, (std::vector<float>{18, 19, 38, 39}));
  const uint32_t some[] = {17, 0};
  data->train_batch(some, {}, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{18, 0}));
  EXPECT_EQ(batch.x, (std::vector<float>{36, 37, 0, 1}));
}

TEST_F(NpzTest, AFileOfTestExamplesAndTheFirstOnes) {
  const std::string train =
      WriteNpz("a.npz", {{"x", kNumbers}, {"y", kLabels}});
  const std::string test = WriteNpz(
      "b.npz", {{"x", Npy<double>("<f8", "(3, 2)", {1, 2, 3, 4, 5, 6})},
                {"y", Npy<uint8_t>("|u1", "(3, 1)", {0, 30, 1})}});
  DataSettings settings = NpzSettings(train, test);
  settings.train_examples = 15;
  settings.test_examples = 2;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train_examples, 15u);
  EXPECT_EQ(data->labels.size(), 15u);
  EXPECT_EQ(data->test_examples, 2u);
  EXPECT_EQ(data->classes, 31u);
  Batch batch;
  data->test_batch(1, 1, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{30}));
  EXPECT_EQ(batch.x, (std::vector<float>{3, 4}));
  settings.test_examples = 4;
  const auto more = LoadData(settings);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message, test + " has 3 test examples here, not 4");
}

TEST_F(NpzTest, Images) {
  const auto grey = LoadData(NpzSettings(WriteNpz(
      "a.npz",
      {{"x", Npy<uint8_t>("|u1", "(20, 2, 3)", Counting<uint8_t>(120))},
       {"y", kLabels}})));
  ASSERT_TRUE(grey) << grey.error().message;
  EXPECT_EQ(grey->input, Input::kImages);
  EXPECT_EQ(grey->shape, (std::vector<int64_t>{2, 3, 1}));
  EXPECT_EQ(grey->mean, (std::vector<float>{0}));
  EXPECT_EQ(grey->std, (std::vector<float>{1}));
  Batch batch;
  const uint32_t second[] = {1};
  grey->train_batch(second, {}, batch);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{1, 2, 3, 1}));
  EXPECT_FLOAT_EQ(batch.x[5], 11.0f / 255);
  const auto colour = LoadData(NpzSettings(WriteNpz(
      "a.npz",
      {{"x", Npy<uint8_t>("|u1", "(20, 1, 1, 3)", Counting<uint8_t>(60))},
       {"y", kLabels}})));
  ASSERT_TRUE(colour) << colour.error().message;
  EXPECT_EQ(colour->shape, (std::vector<int64_t>{1, 1, 3}));
  EXPECT_EQ(colour->mean.size(), 3u);
}

TEST_F(NpzTest, ClassesOfPixels) {
  // Most pixels of the first image are 4; none of the last has a class.
  std::vector<int32_t> classes(80, 2);
  std::copy_n(std::begin({255, 4, 4, 1}), 4, classes.begin());
  std::fill(classes.end() - 4, classes.end(), 255);
  const auto data = LoadData(NpzSettings(WriteNpz(
      "a.npz",
      {{"x", Npy<uint8_t>("|u1", "(20, 2, 2, 1)", Counting<uint8_t>(80))},
       {"y", Npy<int32_t>("<i4", "(20, 2, 2)", classes)}})));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->target, Target::kPixelClasses);
  EXPECT_EQ(data->classes, 5u);
  EXPECT_EQ(data->labels[0], 4);
  EXPECT_EQ(data->labels[1], 2);
  Batch batch;
  const uint32_t first[] = {0};
  data->train_batch(first, {}, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{kNoClass, 4, 4, 1}));
  data->test_batch(1, 1, batch);
  EXPECT_EQ(batch.labels, std::vector<int32_t>(4, kNoClass));

  std::vector<int32_t> single(20, 255);
  single[19] = 1;
  const auto dots = LoadData(NpzSettings(WriteNpz(
      "b.npz", {{"x", Npy<uint8_t>("|u1", "(20, 1, 1)", Counting<uint8_t>(20))},
                {"y", Npy<int32_t>("<i4", "(20, 1, 1)", single)}})));
  ASSERT_TRUE(dots) << dots.error().message;
  EXPECT_EQ(dots->target, Target::kPixelClasses);
  EXPECT_EQ(dots->labels, std::vector<uint16_t>(18, 0));
}

TEST_F(NpzTest, TokensAndClients) {
  const auto data = LoadData(NpzSettings(WriteNpz(
      "a.npz", {{"x", Npy<int16_t>("<i2", "(20, 3)", Counting<int16_t>(60))},
                {"y", kLabels},
                {"client",
                 Npy<uint32_t>("<u4", "(20,)", std::vector<uint32_t>(20, ~0u))},
                {"ignored", Bytes{1, 2, 3}}})));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->input, Input::kTokens);
  EXPECT_EQ(data->vocabulary, 60u);
  EXPECT_EQ(data->shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(data->clients, std::vector<uint32_t>(18, ~0u));
  Batch batch;
  data->test_batch(0, 1, batch);
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{27, 28, 29}));
  EXPECT_TRUE(batch.x.empty());
}

TEST_F(NpzTest, NumbersForNumbers) {
  const auto data = LoadData(NpzSettings(WriteNpz(
      "a.npz",
      {{"x", Npy<float>("<f4", "(20,)", Counting<float>(20))},
       {"y", Npy<double>("<f8", "(20, 1, 2)", Counting<double>(40))}})));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->target, Target::kNumbers);
  EXPECT_EQ(data->shape, (std::vector<int64_t>{1}));
  EXPECT_EQ(data->target_shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(data->classes, 1u);
  EXPECT_EQ(data->labels, std::vector<uint16_t>(18, 0));
  Batch batch;
  data->test_batch(0, 1, batch);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(batch.x, (std::vector<float>{9}));
  EXPECT_EQ(batch.values, (std::vector<float>{18, 19}));
  EXPECT_TRUE(batch.labels.empty());
}

// Written by NumPy 1.24: savez_compressed and savez.
TEST_F(NpzTest, NumpysOwnFiles) {
  const auto images = LoadData(NpzSettings(FEDMRN_TESTDATA "/npz/images.npz"));
  ASSERT_TRUE(images) << images.error().message;
  EXPECT_EQ(images->input, Input::kImages);
  EXPECT_EQ(images->shape, (std::vector<int64_t>{2, 3, 3}));
  EXPECT_EQ(images->classes, 3u);
  EXPECT_EQ(images->clients,
            (std::vector<uint32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2}));
  Batch batch;
  images->test_batch(0, 1, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{9 % 3}));
  EXPECT_FLOAT_EQ(batch.x[17], 179.0f / 255);

  const auto numbers =
      LoadData(NpzSettings(FEDMRN_TESTDATA "/npz/numbers.npz"));
  ASSERT_TRUE(numbers) << numbers.error().message;
  EXPECT_EQ(numbers->input, Input::kNumbers);
  EXPECT_EQ(numbers->target, Target::kNumbers);
  EXPECT_TRUE(numbers->target_shape.empty());
  numbers->test_batch(0, 1, batch);
  EXPECT_EQ(batch.x, (std::vector<float>{9, 9.5}));
  EXPECT_EQ(batch.values, (std::vector<float>{3}));
}

// As numpy.array(["b", ...]) and numpy.array([b"b", ...]) are written. The
// numbers follow from the sorted names.
TEST_F(NpzTest, ClientsMayHaveNames) {
  const std::u32string names[] = {U"zoë", U"ada", U"bo"};
  std::vector<uint32_t> wide;
  std::vector<uint8_t> narrow;
  for (size_t i = 0; i < 20; ++i) {
    for (size_t at = 0; at < 3; ++at) {
      const std::u32string& name = names[i % 3];
      wide.push_back(at < name.size() ? name[at] : 0);
      narrow.push_back(static_cast<uint8_t>(wide.back()));
    }
  }
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < 20; ++i) {
    if (i % 10 != 9) expected.push_back(i % 3 == 0 ? 2 : i % 3 - 1);
  }
  for (const Bytes& clients : {Npy<uint32_t>("<U3", "(20,)", wide),
                               Npy<uint8_t>("|S3", "(20,)", narrow)}) {
    const auto data = LoadData(NpzSettings(WriteNpz(
        "a.npz", {{"x", kNumbers}, {"y", kLabels}, {"client", clients}})));
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(data->clients, expected);
  }
}

TEST_F(NpzTest, DoubtsAreTold) {
  const auto notes = [&](Bytes x, Bytes y) {
    const auto data = LoadData(NpzSettings(
        WriteNpz("a.npz", {{"x", std::move(x)}, {"y", std::move(y)}})));
    EXPECT_TRUE(data) << data.error().message;
    std::string all;
    for (const std::string& note : data->notes) all += note + "\n";
    return all;
  };
  std::vector<int64_t> thirds(20), tenths(20);
  for (int64_t i = 0; i < 20; ++i) {
    thirds[static_cast<size_t>(i)] = i % 3;
    tenths[static_cast<size_t>(i)] = i % 10;
  }
  const Bytes labels = Npy<int64_t>("<i8", "(20,)", thirds);
  std::vector<float> one_hot(60), twice(60), halves(20);
  for (size_t i = 0; i < 20; ++i) {
    one_hot[3 * i + i % 3] = twice[3 * i + i % 3] = 1;
    halves[i] = 0.5f * static_cast<float>(i);
  }
  twice[0] = twice[1] = 1;
  const std::vector<float> large = Counting<float>(80);
  EXPECT_EQ(notes(kNumbers, labels), "");
  EXPECT_EQ(notes(kNumbers, Npy<float>("<f4", "(20, 3)", one_hot)),
            "y looks one-hot: as floats it is a regression of 3 numbers; for "
            "classes save y.argmax(1)\n");
  EXPECT_EQ(notes(kNumbers, Npy<float>("<f4", "(20, 3)", twice)), "");
  EXPECT_EQ(notes(kNumbers, Npy<float>("<f4", "(20,)", Counting<float>(20))),
            "y has whole numbers only: as floats it is a regression; for "
            "classes save y.astype(int)\n");
  EXPECT_EQ(notes(kNumbers, Npy<float>("<f4", "(20, 1)", halves)), "");
  EXPECT_EQ(notes(Npy<float>("<f4", "(20, 1, 2, 2)", large), labels),
            "x has whole numbers up to 79: floats are not divided by 255, as "
            "bytes are; save x.astype(numpy.uint8), (n, h, w, channels), or x "
            "/ 255\n");
  EXPECT_EQ(notes(kNumbers, Npy<int64_t>("<i8", "(20,)", tenths)),
            "2 of 2 test examples are of classes that no training example has: "
            "every tenth example is a test; save them in random order, or set "
            "data.test_path\n");
}

TEST_F(NpzTest, WhatIsWrongIsSaid) {
  const auto with = [](Bytes x, Bytes y = kLabels) {
    return Members{{"x", std::move(x)}, {"y", std::move(y)}};
  };
  EXPECT_EQ(Complaint({{"x", kNumbers}}), "has no array called y");
  EXPECT_EQ(Complaint({{"y", kNumbers}}), "has no array called x");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "(0, 2)", {}))),
            "array x has no examples in it");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "()", {1}))),
            "array x has no examples in it");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "(9,)", Counting<float>(9)),
                           Npy<float>("<f4", "(9,)", Counting<float>(9)))),
            "has too few examples to hold out every tenth for the test: set "
            "data.test_path");
  EXPECT_EQ(Complaint(with(kNumbers,
                           Npy<int8_t>("|i1", "(19,)", Counting<int8_t>(19)))),
            "array y has 19 examples, but x has 20");
  std::vector<float> numbers = Counting<float>(40);
  numbers[31] = std::nanf("");
  EXPECT_EQ(Complaint(with(Npy("<f4", "(20, 2)", numbers))),
            "array x has a number in example 15 that is no finite float32");
  std::vector<double> large(20, 1e300);
  EXPECT_EQ(Complaint(with(kNumbers, Npy("<f8", "(20,)", large))),
            "array y has a number in example 0 that is no finite float32");
  std::vector<int64_t> labels = Counting<int64_t>(20);
  labels[3] = -1;
  EXPECT_EQ(Complaint(with(kNumbers, Npy("<i8", "(20,)", labels))),
            "array y has class -1 in example 3; it must be from 0 to 65534");
  labels[3] = 65535;
  EXPECT_EQ(Complaint(with(kNumbers, Npy("<i8", "(20,)", labels))),
            "array y has class 65535 in example 3; it must be from 0 to 65534");
  EXPECT_EQ(Complaint(with(Npy("<i8", "(20,)", std::vector<int64_t>(20, -4)))),
            "array x has token -4 in example 0; it must be from 0 to "
            "2147483646");
  EXPECT_EQ(Complaint(with(
                kNumbers, Npy<int8_t>("|i1", "(20, 2)", Counting<int8_t>(40)))),
            "array y of integers must have a class per example or per pixel "
            "of an image: its shape is (20, 2), that of x (20, 2). If it is "
            "one-hot, save y.argmax(1)");
  EXPECT_EQ(Complaint(with(Npy<uint8_t>("|u1", "(20, 3, 1, 1, 1)",
                                        Counting<uint8_t>(60)))),
            "array x of bytes must have the shape of images, (n, h, w) or (n, "
            "h, w, 1 or 3), not (20, 3, 1, 1, 1)");
  EXPECT_EQ(
      Complaint(with(
          Npy<uint8_t>("|u1", "(20, 1, 2)", Counting<uint8_t>(40)),
          Npy<int32_t>("<i4", "(20, 1, 2)", std::vector<int32_t>(40, 255)))),
      "array y has no class in it, only 255");
  Members clients = with(kNumbers);
  clients.push_back({"client", kNumbers});
  EXPECT_EQ(Complaint(clients),
            "array client must have an integer or a name per example");
  clients[0].second = Npy<float>("<f4", "()", {1});
  EXPECT_EQ(Complaint(clients), "array x has no examples in it");
  // The format.
  EXPECT_EQ(Complaint(with({1, 2, 3})), "array x is cut off");
  EXPECT_EQ(Complaint(with(Bytes(100, 7))), "array x is not a NumPy array");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "(20,)", numbers, 4))),
            "array x is of NumPy's format 4; 1 to 3 are known");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "(21, 2)", numbers))),
            "array x is cut off");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "(19, 2)", numbers))),
            "array x has bytes past its end");
  EXPECT_EQ(Complaint(with(Npy<float>("<f4", "(4000000000, 4000000000)", {}))),
            "array x claims the shape (4000000000, 4000000000), more than can "
            "be in a file of this size");
  EXPECT_EQ(Complaint(with(Npy<float>(">f4", "(20, 2)", numbers))),
            "array x has elements of type >f4: save it in little-endian "
            "order, with astype('<f4')");
  EXPECT_EQ(Complaint(with(Npy<float>("|O", "(20, 2)", numbers))),
            "array x has elements of type |O: Python objects are not read");
  for (const char* type : {"<c8", "<f16", "<M8[ns]", ""}) {
    EXPECT_EQ(Complaint(with(Npy<float>(type, "(20, 2)", numbers))),
              std::string("array x has elements of type ") + type +
                  ": only integers, floats of 2 to 8 bytes, bool and text are "
                  "read");
  }
  for (const char* type : {">U5", "<U0", "<U", "<U99999", "<U5x"}) {
    EXPECT_EQ(Complaint(with(Npy<float>(type, "(20, 2)", numbers))),
              std::string("array x has elements of type ") + type +
                  ": text must be of 1 to 4096 characters, in little-endian "
                  "order");
  }
  EXPECT_EQ(Complaint(with(Npy<float>("<U2", "(20,)", numbers))),
            "array x has text in it: save numbers, such as numpy.unique(x, "
            "return_inverse=True)[1]");
  EXPECT_EQ(Complaint(with(
                Npy<uint8_t>("|u1", "(20, 3, 2, 2)", Counting<uint8_t>(240)))),
            "array x of bytes must have the shape of images, (n, h, w) or (n, "
            "h, w, 1 or 3), not (20, 3, 2, 2): save x.transpose(0, 2, 3, 1)");
  EXPECT_EQ(Complaint(with(Header(
                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': "
                "(20,), }"))),
            "array x has elements of type a list of fields: only integers, "
            "floats of 2 to 8 bytes, bool and text are read");
  EXPECT_EQ(Complaint(with(Header(
                "{'descr': '<f4', 'fortran_order': True, 'shape': (20, 2)}"))),
            "array x is in Fortran's order: save numpy.ascontiguousarray of "
            "it");
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}"}) {
    EXPECT_EQ(Complaint(with(Header(header))),
              "array x has a header that cannot be understood")
        << header;
  }
  EXPECT_EQ(LoadData(NpzSettings("")).error().message,
            "data.path: must name an .npz file with arrays x and y");
  const std::string nowhere = (dir_ / "nowhere.npz").string();
  EXPECT_EQ(LoadData(NpzSettings(nowhere)).error().message,
            nowhere + ": cannot be read: No such file or directory");
  EXPECT_FALSE(LoadData(NpzSettings(dir_.string())));
  const std::string text = Write("text.npz", "x,y\n1,2\n");
  EXPECT_TRUE(LoadData(NpzSettings(text))
                  .error()
                  .message.starts_with(text + ": is not a sound .npz file: "));
}

TEST_F(NpzTest, TestExamplesMustBeOfTheSameKind) {
  const std::string train =
      WriteNpz("a.npz", {{"x", kNumbers}, {"y", kLabels}});
  const std::string test = WriteNpz(
      "b.npz", {{"x", Npy<float>("<f4", "(20, 3)", Counting<float>(60))},
                {"y", kLabels}});
  const auto data = LoadData(NpzSettings(train, test));
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().message,
            test + ": has arrays of other types or shapes than " + train);
}

// Whole or an error, never a crash; what is stored has a checksum.
TEST_F(NpzTest, DamagedFiles) {
  for (const bool deflate : {true, false}) {
    const Bytes sound =
        ReadAll(WriteNpz("a.npz", {{"x", kNumbers}, {"y", kLabels}}, deflate));
    for (size_t size = 0; size < sound.size(); size += 7) {
      EXPECT_FALSE(
          LoadData(NpzSettings(Write("cut.npz", ByteView(sound).first(size)))))
          << size;
    }
    Random random({1, Purpose::kSynthetic, 0});
    for (int repeat = 0; repeat < 150; ++repeat) {
      Bytes file = sound;
      file[random.Below(file.size())] ^=
          static_cast<uint8_t>(1 + random.Below(255));
      const auto data = LoadData(NpzSettings(Write("flip.npz", file)));
      if (!data) continue;
      Batch batch;
      data->test_batch(0, 2, batch);
      EXPECT_EQ(batch.x, (std::vector<float>{18, 19, 38, 39}));
    }
  }
}

}  // namespace
}  // namespace fedmrn::train
