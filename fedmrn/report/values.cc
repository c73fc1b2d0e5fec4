#include "fedmrn/report/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "fedmrn/sim/config.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::report {
namespace {

// Where a run's value of a key counts: a setting has cells, which are
// partitions, and these compare methods.
Part PartOf(KeyRole role) {
  switch (role) {
    case KeyRole::kPartition:
      return Part::kPartition;
    case KeyRole::kMethod:
    case KeyRole::kTuning:
      return Part::kMethod;
    case KeyRole::kSeed:
      return Part::kSeed;
    default:
      return Part::kSetting;
  }
}

// Whether a partition of this kind reads the key.
bool MattersTo(std::string_view kind, const sim::ConfigKey& key) {
  return key.owners.empty() ||
         std::ranges::find(key.owners, kind) != key.owners.end();
}

// The keys of files that a network is made of, the one that names it first.
constexpr const char* kModelFileKeys[] = {"model.torchscript", "model.backbone",
                                          "model.init"};

const char* ModelFileKey(const SavedRun& run) {
  const auto its = std::ranges::find_if(
      kModelFileKeys, [&](const char* key) { return !run.Get(key).empty(); });
  return its == std::end(kModelFileKeys) ? kModelFileKeys[0] : *its;
}

// "a.npz", "a.npz, test b.npz"; nothing of a data set that lies at its own
// place.
std::string DataFiles(const SavedRun& run) {
  const std::string test = run.Get("data.test_path");
  return run.Get("data.path") + (test.empty() ? "" : ", test " + test);
}

// "net.pt", "start.pt", "net.pt, init start.pt".
std::string ModelFiles(const SavedRun& run) {
  std::string files;
  for (const char* key : kModelFileKeys) {
    const std::string file = run.Get(key);
    if (file.empty()) continue;
    const std::string_view name = std::string_view(key).substr(6);
    files += files.empty() ? file : fmt::format(", {} {}", name, file);
  }
  return files;
}

// Fills in `name`. Digests tell whether files have the same content; of a run
// without one, their names do.
void NameFiles(std::vector<SavedRun>& runs,
               std::string (*files_of)(const SavedRun&),
               std::string SavedRun::*its_digest, std::string SavedRun::*name) {
  // What is read of a file depends on other keys.
  using Reading = std::pair<Values, std::string>;  // and files or digest
  const auto reading = [](const SavedRun& run, const std::string& what) {
    return Reading(ValuesOf(run, Part::kSetting), what);
  };
  std::map<Reading, std::string> digest_of;
  for (const SavedRun& run : runs) {
    const std::string& digest = run.*its_digest;
    if (!digest.empty()) digest_of.emplace(reading(run, files_of(run)), digest);
  }
  std::map<Reading, std::string> name_of;
  std::set<Reading> taken;
  for (SavedRun& run : runs) {
    const std::string files = files_of(run);
    if (files.empty()) continue;
    std::string digest = run.*its_digest;
    if (digest.empty()) digest = digest_of[reading(run, files)];
    if (digest.empty()) {
      run.*name = files;
      continue;
    }
    std::string& shared = name_of[reading(run, digest)];
    if (shared.empty()) {
      // A file may have been changed between two runs.
      const bool changed = !taken.insert(reading(run, files)).second;
      shared =
          changed ? fmt::format("{} (sha256 {:.8})", files, digest) : files;
    }
    run.*name = shared;
  }
}

// The same of data sets that lie at places of their own, if there are runs on
// different content: half of a set in data.dir is another data set. Where the
// seed chooses the examples, only runs of one seed tell.
void NameSets(std::vector<SavedRun>& runs) {
  using Reading = std::pair<Values, Values>;  // setting and seed
  const auto reading = [](const SavedRun& run) {
    const bool sampled = train::FindDataSet(run.Get("data.name"))->sampled;
    return Reading(ValuesOf(run, Part::kSetting),
                   sampled ? ValuesOf(run, Part::kSeed) : Values());
  };
  const auto place = [](const SavedRun& run) {
    const std::string dir = run.Get("data.dir");
    return dir.empty() ? run.Get("data.name") : dir;
  };
  std::map<Reading, std::map<std::string, std::string>> digests;  // and places
  std::vector<SavedRun*> sets;
  for (SavedRun& run : runs) {
    const train::DataSet* set = train::FindDataSet(run.Get("data.name"));
    const bool of_files = set != nullptr && !set->forms.empty();
    if (!of_files || run.data_sha256.empty()) continue;
    sets.push_back(&run);
    digests[reading(run)].emplace(run.data_sha256, place(run));
  }
  std::vector<std::pair<SavedRun*, std::string>> names;
  for (SavedRun* run : sets) {
    const auto& its = digests[reading(*run)];
    if (its.size() < 2) continue;
    const auto same_place = std::ranges::count(
        its, place(*run), [](const auto& entry) { return entry.second; });
    names.emplace_back(run, same_place > 1
                                ? fmt::format("{} (sha256 {:.8})", place(*run),
                                              run->data_sha256)
                                : place(*run));
  }
  // Only now: names are values themselves.
  for (auto& [run, name] : names) run->data_files = name;
}

}  // namespace

Values ValuesOf(const SavedRun& run, Part part) {
  Values values;
  const std::string kind = run.Get("partition.kind");
  for (const auto& [name, value] : run.config) {
    const sim::ConfigKey key = sim::DescribeKey(name);
    const Part its = sim::RepeatsRuns(name) ? Part::kSeed : PartOf(key.role);
    // Files stand for what they hold.
    if (!key.changes_results || its != part) continue;
    if (part == Part::kPartition && !MattersTo(kind, key)) continue;
    values[name] = value;
  }
  if (part != Part::kSetting) return values;
  if (!run.data_files.empty()) values["data.path"] = run.data_files;
  if (!run.model_files.empty()) values[ModelFileKey(run)] = run.model_files;
  return values;
}

void NameFiles(std::vector<SavedRun>& runs) {
  NameSets(runs);
  NameFiles(runs, DataFiles, &SavedRun::data_sha256, &SavedRun::data_files);
  NameFiles(runs, ModelFiles, &SavedRun::model_file_sha256,
            &SavedRun::model_files);
}

}  // namespace fedmrn::report
