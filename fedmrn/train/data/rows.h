// The loaders of the data sets' formats; rows of the table in dataset.cc. Each
// takes the paths of its form's files and fills in `train` and `test`; name,
// shape and classes stand in `data` already. Files are not trusted: counts and
// lengths are checked before anything is allocated for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::train {

Status LoadIdx(std::span<const std::string> paths, ImageData& data);
Status LoadIdxTar(std::span<const std::string> paths, ImageData& data);
Status LoadFemnist(std::span<const std::string> paths, ImageData& data);
Status LoadCifarFiles(std::span<const std::string> paths, ImageData& data);
Status LoadCifarTar(std::span<const std::string> paths, ImageData& data);
Status LoadSpriteFiles(std::span<const std::string> paths, ImageData& data);
Status LoadSpriteTar(std::span<const std::string> paths, ImageData& data);
Status LoadSvhn(std::span<const std::string> paths, ImageData& data);
// Sets that become Data by themselves.
Result<Data> LoadFolder(const DataSet& set, const DataSettings& settings);
Result<Data> LoadNpz(const DataSet& set, const DataSettings& settings);
Result<Data> LoadVoc(const DataSet& set, const DataSettings& settings);
// Not from files; the counts are those that the user wants.
void GenerateSynthetic(uint64_t train_examples, uint64_t test_examples,
                       ImageData& data);

// FindData, or the error that says what is missing and how to get it.
Result<FoundData> RequireData(const DataSet& set, const DataSettings& settings);

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

// Gives as many of `there` examples as the user wants; 0 stands for all.
inline Result<uint64_t> HowMany(uint64_t wanted, uint64_t there,
                                const char* kind, const std::string& name) {
  if (wanted <= there) return wanted == 0 ? there : wanted;
  return Error{ErrorCode::kBadValue, name + " has " + std::to_string(there) +
                                         " " + kind + " examples here, not " +
                                         std::to_string(wanted)};
}

// Every tenth example of a user's data without test examples is one.
inline constexpr size_t kHeldOutEvery = 10;
inline bool IsHeldOut(size_t example) {
  return example % kHeldOutEvery == kHeldOutEvery - 1;
}

inline size_t PixelsPerExample(const ImageData& data) {
  return size_t{data.height} * data.width * data.channels;
}

}  // namespace fedmrn::train
