#include "fedmrn/results/grid_place.h"

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"

namespace fedmrn::results {
namespace {

constexpr char kFile[] = "/grid.json";

}  // namespace

Status WriteGridPlace(const std::string& folder, const GridPlace& place) {
  Json json;
  json["summary"] = place.summary;
  Json& labels = json["labels"] = Json::object();
  for (const auto& [axis, label] : place.labels) labels[axis] = label;
  const std::string text = JsonText(json, 2) + "\n";
  const Result<Bytes> there = ReadFile(folder + kFile);
  if (there && AsText(*there) == text) return Ok();
  return WriteFileAtomically(folder + kFile, AsBytes(text));
}

GridPlace ReadGridPlace(const std::string& folder) {
  GridPlace place;
  const Result<Bytes> bytes = ReadFile(folder + kFile);
  if (!bytes) return place;
  const Json json = ParseJson(AsText(*bytes));
  if (!json.is_object() || !json.contains("summary") ||
      !json["summary"].is_string() || !json.contains("labels") ||
      !json["labels"].is_object()) {
    return place;
  }
  place.summary = json["summary"].get<std::string>();
  for (const auto& [axis, label] : json["labels"].items()) {
    if (label.is_string()) place.labels.emplace_back(axis, label);
  }
  return place;
}

}  // namespace fedmrn::results
