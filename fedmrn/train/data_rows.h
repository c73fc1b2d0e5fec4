// The loaders of the data sets' formats; rows of the table in dataset.cc. Each
// takes the paths of its form's files and fills in `train` and `test`; name,
// shape and classes stand in `data` already. Files are not trusted: counts and
// lengths are checked before anything is allocated for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fedmrn/core/bytes.h"
#include "fedmrn/core/result.h"
#include "fedmrn/train/dataset.h"

namespace fedmrn {

Status LoadIdx(std::span<const std::string> paths, ImageData& data);
Status LoadCifarFiles(std::span<const std::string> paths, ImageData& data);
Status LoadCifarTar(std::span<const std::string> paths, ImageData& data);
Status LoadSpriteFiles(std::span<const std::string> paths, ImageData& data);
Status LoadSpriteTar(std::span<const std::string> paths, ImageData& data);
Status LoadSvhn(std::span<const std::string> paths, ImageData& data);
// Not from files; the counts are those that the user wants.
void GenerateSynthetic(uint64_t train_examples, uint64_t test_examples,
                       ImageData& data);

// FindData, or the error that says what is missing and how to get it.
Result<FoundData> RequireData(const DataSet& set, const DataSettings& settings);
// Refuses to take the first `wanted` of fewer examples.
Status CheckCount(const DataSet& set, const char* kind, uint64_t examples,
                  uint64_t wanted);

// More than any set here has; a file that claims more is damaged.
inline constexpr uint64_t kMaxExamples = 1'000'000;
// Deflate's best ratio: how many bytes a packed one can stand for.
inline constexpr uint64_t kMaxInflation = 1032;

inline Error FileError(ErrorCode code, const std::string& path,
                       const std::string& what) {
  return {code, path + ": " + what};
}

inline Error LabelError(const std::string& path, uint64_t example,
                        const std::string& label, const ImageData& data) {
  return FileError(ErrorCode::kBadValue, path,
                   "example " + std::to_string(example) + " has label " +
                       label + "; " + data.name + " has labels below " +
                       std::to_string(data.classes));
}

inline size_t PixelsPerExample(const ImageData& data) {
  return size_t{data.height} * data.width * data.channels;
}

}  // namespace fedmrn
