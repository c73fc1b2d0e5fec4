#include "fedmrn/train/data/image_file.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "fedmrn/core/random.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

void ExpectNear(const Picture& picture, const Picture& expected,
                int tolerance) {
  ASSERT_EQ(picture.height, expected.height);
  ASSERT_EQ(picture.width, expected.width);
  ASSERT_EQ(picture.channels, expected.channels);
  ASSERT_EQ(picture.pixels.size(), expected.pixels.size());
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    ASSERT_NEAR(picture.pixels[i], expected.pixels[i], tolerance) << "at " << i;
  }
}

TEST(ImageFile, JpegsOfEveryKindAreRgb) {
  const Picture colours = Gradients(13, 22);
  for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
    const auto decoded = DecodePicture(MakeJpeg(colours, flags), "a.jpg");
    ASSERT_TRUE(decoded) << decoded.error().message;
    ExpectNear(*decoded, colours, 4);
  }
  const Picture grey = Gradients(9, 10, 1);
  const auto decoded = DecodePicture(MakeJpeg(grey), "a.jpg");
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_EQ(decoded->channels, 3u);
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) {
      ASSERT_NEAR(decoded->pixels[3 * i + c], grey.pixels[i], 3);
    }
  }
  // Inverted inks: cyan, magenta, yellow, black.
  Picture inks{8, 8, 4, {}};
  for (int i = 0; i < 64; ++i) {
    inks.pixels.insert(inks.pixels.end(), {255, 128, 0, 200});
  }
  const auto mixed = DecodePicture(MakeJpeg(inks), "a.jpg");
  ASSERT_TRUE(mixed) << mixed.error().message;
  ExpectNear(*mixed, Plain(8, 8, 200, 100, 0), 3);
}

TEST(ImageFile, PngsOfEveryKindAreRgb) {
  const Picture colours = Gradients(13, 22);
  const auto decoded = DecodePicture(MakePng(colours), "a.png");
  ASSERT_TRUE(decoded) << decoded.error().message;
  ExpectNear(*decoded, colours, 0);
  const auto grey =
      DecodePicture(MakePng(Gradients(2, 3, 1), PNG_FORMAT_GRAY), "a.png");
  ASSERT_TRUE(grey) << grey.error().message;
  EXPECT_EQ(grey->channels, 3u);
  EXPECT_EQ(Bytes(grey->pixels.begin(), grey->pixels.begin() + 6),
            (Bytes{20, 20, 20, 22, 22, 22}));
  // Its alpha is dropped, not mixed with a background.
  const auto alpha = DecodePicture(
      MakePng({1, 1, 4, {10, 20, 30, 128}}, PNG_FORMAT_RGBA), "a.png");
  ASSERT_TRUE(alpha) << alpha.error().message;
  EXPECT_EQ(alpha->pixels, (Bytes{10, 20, 30}));
  const auto palette = DecodePicture(MakeMask({1, 2, 1, {0, 250}}), "a.png");
  ASSERT_TRUE(palette) << palette.error().message;
  EXPECT_EQ(palette->pixels, (Bytes{255, 255, 255, 5, 5, 5}));
}

TEST(ImageFile, MasksAreNumbersOfThePalette) {
  const Picture mask{2, 3, 1, {0, 1, 20, 255, 7, 0}};
  for (const png_uint_32 format :
       {png_uint_32{PNG_FORMAT_RGB_COLORMAP}, png_uint_32{PNG_FORMAT_GRAY}}) {
    const auto decoded = DecodeMask(MakePng(mask, format), "a.png");
    ASSERT_TRUE(decoded) << decoded.error().message;
    ExpectNear(*decoded, mask, 0);
  }
  const auto colours = DecodeMask(MakePng(Gradients(2, 2)), "a.png");
  ASSERT_FALSE(colours);
  EXPECT_EQ(colours.error().message,
            "a.png: is no mask: its pixels are colours, not numbers of a "
            "palette");
  const auto jpeg = DecodeMask(MakeJpeg(Gradients(8, 8)), "a.jpg");
  ASSERT_FALSE(jpeg);
  EXPECT_EQ(jpeg.error().message, "a.jpg: is not a PNG");
}

// What libpng's simple interface does not write.
Bytes MakePackedPng(uint32_t width, uint32_t height, int depth, int kind,
                    int interlace, bool transparent, ByteView row) {
  Bytes file;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep data, size_t size) {
        Bytes& bytes = *static_cast<Bytes*>(png_get_io_ptr(to));
        bytes.insert(bytes.end(), data, data + size);
      },
      nullptr);
  png_set_IHDR(png, info, width, height, depth, kind, interlace,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const png_color colours[256] = {};
  const png_byte alphas[1] = {};
  const png_color_16 see_through = {};
  if (kind == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(png, info, colours, 1 << depth);
  }
  if (transparent) png_set_tRNS(png, info, alphas, 1, &see_through);
  png_write_info(png, info);
  for (int pass = png_set_interlace_handling(png); pass > 0; --pass) {
    for (uint32_t y = 0; y < height; ++y) png_write_row(png, row.data());
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

TEST(ImageFile, PackedMasks) {
  const Bytes row = {0x10, 0xF3, 0x90};
  const auto decoded = DecodeMask(MakePackedPng(5, 1, 4, PNG_COLOR_TYPE_PALETTE,
                                                PNG_INTERLACE_NONE, false, row),
                                  "a.png");
  ASSERT_TRUE(decoded) << decoded.error().message;
  ExpectNear(*decoded, {1, 5, 1, {1, 0, 15, 3, 9}}, 0);
}

TEST(ImageFile, EveryDepthAndInterlacing) {
  constexpr struct {
    int kind, least, most;
  } kKinds[] = {{PNG_COLOR_TYPE_GRAY, 1, 16},
                {PNG_COLOR_TYPE_PALETTE, 1, 8},
                {PNG_COLOR_TYPE_RGB, 8, 16},
                {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 16},
                {PNG_COLOR_TYPE_RGB_ALPHA, 8, 16}};
  const Bytes row(10 * 8);
  for (const auto& [kind, least, most] : kKinds) {
    for (int depth = least; depth <= most; depth *= 2) {
      for (const int interlace : {PNG_INTERLACE_NONE, PNG_INTERLACE_ADAM7}) {
        for (const bool transparent : {false, true}) {
          if (transparent && (kind & PNG_COLOR_MASK_ALPHA) != 0) continue;
          const Bytes file =
              MakePackedPng(10, 9, depth, kind, interlace, transparent, row);
          const auto decoded = DecodePicture(file, "a.png");
          ASSERT_TRUE(decoded)
              << kind << " " << depth << ": " << decoded.error().message;
          ExpectNear(*decoded, Plain(9, 10, 0, 0, 0), 0);
          const auto mask = DecodeMask(file, "a.png");
          const bool numbers =
              (kind == PNG_COLOR_TYPE_GRAY || kind == PNG_COLOR_TYPE_PALETTE) &&
              depth <= 8;
          ASSERT_EQ(mask.ok(), numbers) << kind << " " << depth;
          if (!numbers) continue;
          EXPECT_EQ(mask->pixels, Bytes(90, 0));
        }
      }
    }
  }
}

TEST(ImageFile, AJpegOfTablesAloneHasNoPicture) {
  const std::string bytes = "\xFF\xD8\xFF\xE0 no picture";
  const auto decoded =
      DecodePicture(Bytes(bytes.begin(), bytes.end()), "a.jpg");
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().message, "a.jpg: has no picture in it");
}

TEST(ImageFile, EveryTruncationIsAnError) {
  for (const Bytes& file :
       {MakeJpeg(Gradients(16, 16)), MakeJpeg(Gradients(16, 16, 1)),
        MakeJpeg(Gradients(16, 16), TJFLAG_PROGRESSIVE)}) {
    // A JPEG ends with a marker of two bytes, which says nothing new.
    for (size_t size = 0; size + 2 < file.size(); ++size) {
      EXPECT_FALSE(DecodePicture(ByteView(file).first(size), "a.jpg"))
          << size << " of " << file.size();
    }
  }
  for (const Bytes& file :
       {MakePng(Gradients(16, 16)), MakeMask(Gradients(16, 16, 1))}) {
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_FALSE(DecodePicture(ByteView(file).first(size), "a.png"));
      EXPECT_FALSE(DecodeMask(ByteView(file).first(size), "a.png"));
    }
  }
}

// What comes out is whole or an error. A PNG's checksums find every change of
// its pixels; what is left is in chunks that say nothing about them.
TEST(ImageFile, NoChangeOfBytesBreaksIt) {
  const Picture colours = Gradients(16, 16);
  Random random({1, Purpose::kSynthetic, 0});
  const auto change = [&](Bytes& file, size_t at) {
    file[at] ^= static_cast<uint8_t>(1 + random.Below(255));
  };
  for (const Bytes& sound :
       {MakeJpeg(colours), MakeJpeg(colours, TJFLAG_PROGRESSIVE),
        MakePng(colours), MakeMask(Gradients(16, 16, 1))}) {
    const bool is_png = sound[0] == 0x89;
    for (const auto decode : {DecodePicture, DecodeMask}) {
      const auto expected = decode(sound, "a");
      for (size_t i = 0; i < 4 * sound.size(); ++i) {
        Bytes file = sound;
        change(file, i / 4);
        if (i % 4 == 3) change(file, random.Below(file.size()));
        const auto decoded = decode(file, "a");
        if (!decoded) {
          EXPECT_TRUE(decoded.error().message.starts_with("a: "));
          continue;
        }
        EXPECT_EQ(decoded->pixels.size(),
                  size_t{decoded->height} * decoded->width * decoded->channels);
        if (is_png && i % 4 < 3) {
          EXPECT_TRUE(decoded->pixels == expected->pixels) << "at " << i / 4;
        }
      }
    }
  }
}

TEST(ImageFile, AbsurdSizesAreRefusedBeforeAnythingIsAllocated) {
  Bytes jpeg = MakeJpeg(Gradients(8, 8));
  const uint8_t start_of_frame[] = {0xFF, 0xC0};
  const auto at =
      std::search(jpeg.begin(), jpeg.end(), std::begin(start_of_frame),
                  std::end(start_of_frame));
  std::fill_n(at + 5, 4, uint8_t{0x7F});
  const auto decoded = DecodePicture(jpeg, "a.jpg");
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().message,
            "a.jpg: claims 32639 x 32639 pixels; at most 67108864 are taken");

  // Below the limit, but impossible in a few bytes: 8191 x 8191, 20000 x 2000.
  for (const int i : {5, 7}) {
    at[i] = 0x1F;
    at[i + 1] = 0xFF;
  }
  const auto large = DecodePicture(jpeg, "a.jpg");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message,
            "a.jpg: claims more pixels than can be in a file of " +
                std::to_string(jpeg.size()) + " bytes");
  Bytes png = MakePng(Gradients(8, 8));
  const auto resize = [&](uint32_t width, uint32_t height) {
    for (int i = 0; i < 4; ++i) {
      png[static_cast<size_t>(16 + i)] =
          static_cast<uint8_t>(width >> (24 - 8 * i));
      png[static_cast<size_t>(20 + i)] =
          static_cast<uint8_t>(height >> (24 - 8 * i));
    }
    uint32_t crc = ~0u;
    for (size_t i = 12; i < 29; ++i) {
      crc ^= png[i];
      for (int bit = 0; bit < 8; ++bit) {
        crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
      }
    }
    for (int i = 0; i < 4; ++i) {
      png[static_cast<size_t>(29 + i)] =
          static_cast<uint8_t>(~crc >> (24 - 8 * i));
    }
  };
  resize(20000, 2000);
  const auto thin = DecodePicture(png, "a.png");
  ASSERT_FALSE(thin);
  EXPECT_EQ(thin.error().message,
            "a.png: claims more pixels than can be in a file of " +
                std::to_string(png.size()) + " bytes");
  resize(100000, 100000);
  const auto huge = DecodePicture(png, "a.png");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().message,
            "a.png: claims 100000 x 100000 pixels; at most 67108864 are "
            "taken");
}

using ImageFileFolder = FolderTest;

TEST_F(ImageFileFolder, ErrorsNameTheFile) {
  const std::string text = Write("a.jpg", "not a picture");
  const auto picture = ReadPicture(text);
  ASSERT_FALSE(picture);
  EXPECT_EQ(picture.error().message, text + ": is neither JPEG nor PNG");
  const std::string absent = (dir_ / "b.jpg").string();
  const auto missing = ReadPicture(absent);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            absent + ": cannot read it: No such file or directory");
  EXPECT_FALSE(ReadPicture(dir_.string()));
}

TEST(Resize, BilinearIsBetweenCentres) {
  const Picture line{1, 4, 1, {0, 100, 200, 40}};
  EXPECT_EQ(Resize(line, 1, 8, Resampling::kBilinear).pixels,
            (Bytes{0, 25, 75, 125, 175, 160, 80, 40}));
  // Halves: each between two; a third: only the middle one of each three.
  EXPECT_EQ(Resize(line, 1, 2, Resampling::kBilinear).pixels, (Bytes{50, 120}));
  const Picture six{6, 1, 1, {0, 60, 0, 0, 90, 255}};
  EXPECT_EQ(Resize(six, 2, 1, Resampling::kBilinear).pixels, (Bytes{60, 90}));
  const Picture colours = Gradients(5, 7);
  EXPECT_EQ(Resize(colours, 5, 7, Resampling::kBilinear).pixels,
            colours.pixels);
  EXPECT_EQ(Resize(colours, 5, 7, Resampling::kAverage).pixels, colours.pixels);
}

TEST(Resize, AverageSeesEveryPixel) {
  // Stripes of one pixel vanish in grey; looking at the nearest would keep
  // them or turn them into one colour.
  Picture stripes{1, 64, 1, {}};
  for (int i = 0; i < 64; ++i) {
    stripes.pixels.push_back(i % 2 == 0 ? 0 : 200);
  }
  for (const uint8_t pixel :
       Resize(stripes, 1, 8, Resampling::kAverage).pixels) {
    EXPECT_NEAR(pixel, 100, 4);
  }
  // A triangle of reach 2 about the middle of four: 1/8, 3/8, 3/8, 1/8; cut at
  // the edge, 3/7, 3/7, 1/7.
  const Picture line{1, 6, 1, {70, 0, 140, 80, 0, 40}};
  EXPECT_EQ(Resize(line, 1, 3, Resampling::kAverage).pixels,
            (Bytes{50, 83, 29}));
}

TEST(Resize, NearestMakesNoNewValues) {
  const Picture line{1, 5, 1, {1, 2, 3, 4, 5}};
  EXPECT_EQ(Resize(line, 1, 3, Resampling::kNearest).pixels, (Bytes{1, 3, 5}));
  EXPECT_EQ(Resize(line, 2, 10, Resampling::kNearest).pixels,
            (Bytes{1, 1, 2, 2, 3, 3, 4, 4, 5, 5,  //
                   1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
}

TEST(ReadExamples, TheFirstBadOneIsTheError) {
  std::atomic<int> calls = 0;
  const auto read = [&](size_t i) -> Status {
    ++calls;
    if (i % 50 != 17) return Ok();
    return Error{ErrorCode::kBadFormat, "f" + std::to_string(i) + ": is bad"};
  };
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto found = ReadExamples(1000, false, read);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().message,
              "f17: is bad. To leave out what cannot be read: --skip-bad");
  }
  calls = 0;
  const auto found = ReadExamples(220, true, read);
  ASSERT_TRUE(found);
  EXPECT_EQ(calls, 220);
  EXPECT_EQ(std::ranges::count(found->bad, true), 5);
  EXPECT_TRUE(found->bad[217]);
  EXPECT_EQ(found->note,
            "5 of 220 examples cannot be read and are left out: f17: is bad; "
            "f67: is bad; f117: is bad; ...");
  const auto sound = ReadExamples(10, false, read);
  ASSERT_TRUE(sound);
  EXPECT_EQ(sound->note, "");
}

}  // namespace
}  // namespace fedmrn::train
