// Shared by the tests of data sets: files made on the spot.
#pragma once

#include <png.h>
#include <stdlib.h>
#include <turbojpeg.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/files.h"
#include "fedmrn/train/data/image_file.h"
#include "gtest/gtest.h"

namespace fedmrn::train {

inline void WriteAll(const std::filesystem::path& path, ByteView bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::remove(path);  // to write over it would wait for the disk
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline Bytes ReadAll(const std::filesystem::path& path) {
  return ReadFile(path).value();
}

// A folder for one test.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "fedmrn-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Below the folder. Returns the whole path.
  std::string Write(const std::string& name, ByteView bytes) const {
    const std::filesystem::path path = dir_ / name;
    WriteAll(path, bytes);
    return path.string();
  }
  std::string Write(const std::string& name, const std::string& text) const {
    return Write(name, Bytes(text.begin(), text.end()));
  }

  std::filesystem::path dir_;
};

// What stands before the plays in Project Gutenberg's text, and above one.
inline const std::string kBeforePlays =
    "\xEF\xBB\xBFThe Complete Works, by William Shakespeare\n"
    "  CONTENTS. one\n  CONTENTS. two\n  CONTENTS. three\n"
    "1609\n\nTHE SONNETS\n\nby William Shakespeare\n\n"
    "  POET. one\n    two\n    three\n  LADY. one\n    two\n    three\n\n";
inline std::string Titled(const std::string& title) {
  return "1601\n\n" + title + "\n\nby William Shakespeare\n\n";
}

// A picture whose pixels differ in every coordinate, but smoothly.
inline Picture Gradients(uint32_t height, uint32_t width,
                         uint32_t channels = 3) {
  Picture picture{height, width, channels, {}};
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        picture.pixels.push_back(
            static_cast<uint8_t>(20 + 3 * y + 2 * x + 40 * c));
      }
    }
  }
  return picture;
}

// Makes a picture of one colour.
inline Picture Plain(uint32_t height, uint32_t width, uint8_t red,
                     uint8_t green, uint8_t blue) {
  Picture picture{height, width, 3, {}};
  for (uint32_t i = 0; i < height * width; ++i) {
    picture.pixels.insert(picture.pixels.end(), {red, green, blue});
  }
  return picture;
}

// The picture has 1, 3 or 4 (CMYK) channels.
inline Bytes MakeJpeg(const Picture& picture, int flags = 0) {
  const int subsampling = picture.channels == 1 ? TJSAMP_GRAY : TJSAMP_444;
  const int format = picture.channels == 1   ? TJPF_GRAY
                     : picture.channels == 3 ? TJPF_RGB
                                             : TJPF_CMYK;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  tjhandle jpeg = tjInitCompress();
  EXPECT_EQ(
      tjCompress2(jpeg, picture.pixels.data(), static_cast<int>(picture.width),
                  0, static_cast<int>(picture.height), format, &bytes, &size,
                  subsampling, 95, flags),
      0)
      << tjGetErrorStr2(jpeg);
  const Bytes out(bytes, bytes + size);
  tjFree(bytes);
  tjDestroy(jpeg);
  return out;
}

// `format`: one of libpng's; with a palette of 256 greys if it has one.
inline Bytes MakePng(const Picture& picture,
                     png_uint_32 format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.format = format;
  Bytes palette;
  if ((format & PNG_FORMAT_FLAG_COLORMAP) != 0) {
    image.colormap_entries = 256;
    for (unsigned i = 0; i < 3 * 256; ++i) {
      palette.push_back(static_cast<uint8_t>(255 - i / 3));
    }
  }
  png_alloc_size_t size = picture.pixels.size() + 10000;
  Bytes png(size);
  EXPECT_NE(png_image_write_to_memory(&image, png.data(), &size, 0,
                                      picture.pixels.data(), 0, palette.data()),
            0)
      << image.message;
  png.resize(size);
  return png;
}

inline Bytes MakeMask(const Picture& mask) {
  return MakePng(mask, PNG_FORMAT_RGB_COLORMAP);
}

}  // namespace fedmrn::train
