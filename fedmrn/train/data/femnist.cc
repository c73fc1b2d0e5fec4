// FEMNIST as LEAF's scripts leave it: a user is a writer, "x" has lists of 784
// numbers, the pixels of 28 x 28 divided by 255 (white is 1), and "y" classes:
// digits are 0 to 9, capital letters 10 to 35, small ones 36 to 61. Numbers
// become bytes as they are read, 784 for an example instead of its several
// kilobytes of text.
#include <cmath>
#include <string>
#include <unordered_map>

#include "fedmrn/train/data/leaf_reader.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

class WriterReader final : public LeafReader {
 public:
  WriterReader(const ImageData& data, Examples& part)
      : LeafReader("number"), data_(data), part_(part) {}

 private:
  bool BeginList() override {
    if (!InX() || InList()) return Strange();
    return part_.labels.size() < kMaxExamples ||
           Fail("has more than " + std::to_string(kMaxExamples) + " examples");
  }

  bool Number(double value) override {
    if (InX() && InList()) {
      if (!(value >= 0 && value <= 1)) {
        return Fail("user " + User() + " has a pixel of " +
                    std::to_string(value) + ", not from 0 to 1");
      }
      part_.pixels.push_back(static_cast<uint8_t>(std::lround(255 * value)));
      return true;
    }
    if (InX() || InList()) return Strange();
    if (!(value >= 0 && value < data_.classes) || value != std::floor(value)) {
      return Fail("user " + User() + " has class " + std::to_string(value) +
                  "; " + data_.name + " has classes below " +
                  std::to_string(data_.classes));
    }
    part_.labels.push_back(static_cast<uint16_t>(value));
    return true;
  }

  bool EndList() override {
    const size_t size = PixelsPerExample(data_);
    ++images_;
    return part_.pixels.size() == (first_ + images_) * size ||
           Fail("user " + User() + " has an image that is not of " +
                std::to_string(size) + " pixels");
  }

  bool EndUser(bool& has_data) override {
    const size_t labels = part_.labels.size() - first_;
    if (images_ != labels) {
      return Fail("user " + User() + " has " + std::to_string(images_) +
                  " images in \"x\", but " + std::to_string(labels) +
                  " classes in \"y\"");
    }
    has_data = images_ > 0;
    if (has_data) {
      const auto number = static_cast<uint32_t>(writers_.size());
      part_.clients.resize(part_.labels.size(),
                           writers_.try_emplace(User(), number).first->second);
    }
    first_ = part_.labels.size();
    images_ = 0;
    return true;
  }

  const ImageData& data_;
  Examples& part_;
  // By name, numbered in the order of their coming: one may be in several
  // files.
  std::unordered_map<std::string, uint32_t> writers_;
  size_t first_ = 0, images_ = 0;  // of the user
};

}  // namespace

Status LoadFemnist(std::span<const std::string> paths, ImageData& data) {
  for (const bool train : {true, false}) {
    WriterReader reader(data, train ? data.train : data.test);
    for (const std::string& path : MatchingFiles(paths[train ? 0 : 1])) {
      FEDMRN_TRY(reader.Read(path));
    }
  }
  return Ok();
}

}  // namespace fedmrn::train
