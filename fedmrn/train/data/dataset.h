// Data sets, as users get them: files in, Data out. The clients' data is never
// copied: a client is a list of indices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/base/settings.h"
#include "fedmrn/train/data/data.h"

namespace fedmrn::train {

struct Examples {
  std::vector<uint8_t> pixels;    // example, row, column, channel
  std::vector<uint16_t> labels;   // one per example
  std::vector<uint32_t> clients;  // data that comes with its clients, or empty
  // A pixel enters the network as (pixel / 255 - mean) / std of its channel.
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};

  size_t size() const { return labels.size(); }
};

struct ImageData {
  std::string name;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;
  uint32_t classes = 0;
  bool augment = false;  // random crop (zero padding 4), then flip, in training
  Examples train;
  Examples test;
};

struct DataSettings {
  std::string name;             // of its row
  std::string dir = {};         // empty: the usual places
  uint64_t train_examples = 0;  // use only the first ones; 0: all
  uint64_t test_examples = 0;
  // The user's own data: a file or folder of training examples, and one of test
  // examples; without that, every tenth of the former is a test example.
  std::string path = {};
  std::string test_path = {};
  double validation = 0;    // this share of each client's examples, in the
                            // place of the test examples
  double fraction = 0.2;    // shakespeare: of all examples, as LEAF samples
  uint32_t image_size = 0;  // voc, folder: see their files
  uint32_t crop = 480;      // voc: side of what is cut out in training
  bool erase = true;        // voc: an image has one class only
  bool skip_bad = false;    // leave out examples that cannot be read
  uint64_t seed = 1;        // of what is drawn in loading
  // Numbers of data sets that other programs register, by names of their own.
  std::map<std::string, double> own = {};

  bool operator==(const DataSettings&) const = default;
};
using DataKey = Key<DataSettings>;
// All keys of the program's own data sets, in the config's order.
std::span<const DataKey> DataKeys();

// Reads and checks the whole set. The error names the file and what to do.
// Thread-safe; never throws.
Result<Data> LoadData(const DataSettings& settings);

// Loads a set of images alike, before it becomes Data.
Result<ImageData> LoadImages(const DataSettings& settings);
Data DataOf(ImageData images);

// A file of a set. A SHA-256 tells the published file from a subset of it or
// a copy packed again; it is no condition for loading.
struct DataFile {
  const char* name;    // below the set's folder; may have a * in its last part
  const char* sha256;  // as published; null: any
  const char* url = nullptr;              // where it is published
  const char* unpacked_sha256 = nullptr;  // of what a .gz holds
};

// One of the ways in which a set may lie in a folder: all of these files.
struct DataForm {
  std::span<const DataFile> files;
  // Null for sets that are not of images: these load by themselves.
  Status (*load)(std::span<const std::string> paths, ImageData& data);
  const char* folder = "";  // the archive's own, where users may unpack it
};

struct Normalisation {
  std::array<float, 3> mean, std;
};

// How clients may share the examples; sim/partition.h has the details.
enum class PartitionKind { kIid, kDirichlet, kLabels, kNatural };

struct DataSet {
  const char* name;
  const char* summary;
  const char* model;  // its usual network
  Result<Data> (*load)(const DataSet& set, const DataSettings& settings);
  uint32_t height = 0, width = 0, channels = 0;  // of images
  uint32_t classes = 0;
  bool augment = false;
  uint64_t train_examples = 0, test_examples = 0;  // of the complete set
  Normalisation train = {}, test = {};
  std::span<const DataForm> forms = {};  // the published one first; none:
                                         // generated, or the user's own
  // Other sources:
  const char* debian_package = nullptr;
  const char* system_dir = nullptr;   // where that puts it
  const char* npm_package = nullptr;  // whose tarball is `npm_form`
  const char* npm_version = nullptr;
  const DataForm* npm_form = nullptr;
  const char* by_hand = nullptr;  // how its user gets it, if no url can
  const char* input = nullptr;    // what an example is, if it is no image
  PartitionKind partition = PartitionKind::kIid;  // its usual one
  bool sampled = false;  // which examples there are follows from the seed
  // The keys that it reads, beside those of all sets. A set from outside may
  // bring its own, with a place in DataSettings::own.
  std::vector<const DataKey*> keys = {};
};

// In the order of `fedmrn data list`.
const std::deque<DataSet>& DataSets();
const DataSet* FindDataSet(std::string_view name);  // null if unknown
// Another row, before the first config is parsed.
void RegisterDataSet(const DataSet& set);

// The folders that are searched when none is given, in this order:
// $FEDMRN_DATA/NAME, the user's data folder, ./data/NAME, `system_dir`.
std::vector<std::string> DataFolders(const DataSet& set);

struct FoundData {
  std::string dir;
  const DataForm* form;
  std::vector<std::string> paths;  // of form->files; see MatchingFiles
  std::string missing;             // the first that is not there, or empty
};

// In `dir`, or if that is empty in the first of DataFolders that has it.
std::optional<FoundData> FindData(const DataSet& set, const std::string& dir);

// The files that a path stands for, sorted: a * in its last part matches any
// characters.
std::vector<std::string> MatchingFiles(const std::string& path);

}  // namespace fedmrn::train
