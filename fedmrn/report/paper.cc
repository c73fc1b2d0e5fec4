#include "fedmrn/report/paper.h"

#include <algorithm>
#include <iterator>

#include "fedmrn/report/gnuplot.h"

namespace fedmrn::report {
namespace {

// A tenth of 133 roles answer in a round.
constexpr PaperKey kShakespeareKeys[] = {{"rounds.clients_per_round", "13"}};
constexpr PaperKey kVocKeys[] = {{"data.crop", "480"},
                                 {"data.erase", "true"},
                                 {"partition.clients", "60"},
                                 {"train.drop_last", "true"}};

// Those of Tables 1 and 2, then the appendix's.
constexpr PaperData kDataSets[] = {
    {"fmnist", "FMNIST", 100, 10, 64, "cnn4", kPaperPartitions, 0.3, 3},
    {"svhn", "SVHN", 100, 10, 64, "cnn4", kPaperPartitions, 0.3, 3},
    {"cifar10", "CIFAR-10", 200, 10, 64, "cnn8", kPaperPartitions, 0.3, 3},
    {"cifar100", "CIFAR-100", 200, 10, 64, "cnn8", kPaperPartitions, 0.2, 20},
    {"shakespeare", "Shakespeare", 100, 1, 128, "charlstm", kRoles, 0, 0,
     kShakespeareKeys},
    {"voc", "PascalVOC", 400, 2, 8, "bisenetv2", kByClass, 0, 1, kVocKeys,
     true},
};
constexpr size_t kImageSets = 4;
constexpr size_t kColumns = kImageSets * kPaperPartitions.size();

struct Row1 {
  std::string_view method;
  PaperAccuracy columns[kColumns];  // data set by data set, IID first
};
// clang-format off
constexpr Row1 kTable1[] = {
    {"fedavg",      {{92.0, .1}, {90.5, .1}, {88.8, .2}, {92.2, .1}, {90.3, .2}, {88.9, .1}, {88.2, .2}, {84.1, .2}, {80.8, .5}, {56.1, .3}, {54.8, .5}, {54.4, .2}}},
    {"fedpm",       {{81.7, .4}, {78.6, .2}, {74.6, .8}, {66.3, .9}, {52.4, 1.1}, {48.3, 2.3}, {50.2, .9}, {46.3, .2}, {44.3, .5}, {22.9, .1}, {16.6, .3}, {13.4, .2}}},
    {"fedsparsify", {{85.6, .1}, {80.9, 1.2}, {78.8, 1.5}, {81.3, .3}, {77.2, .4}, {72.8, 1.1}, {72.0, .7}, {66.8, .7}, {62.5, .5}, {32.9, .2}, {29.8, .3}, {28.8, .1}}},
    {"signsgd",     {{91.1, .1}, {88.4, .2}, {87.1, .3}, {90.8, .2}, {87.3, .4}, {86.5, .3}, {85.3, .2}, {75.1, .4}, {76.2, .6}, {48.0, .5}, {39.2, .2}, {44.0, .2}}},
    {"topk",        {{90.1, .1}, {88.6, .2}, {86.7, .2}, {90.0, .1}, {87.7, .1}, {86.4, .1}, {84.1, .1}, {77.9, .3}, {75.1, .1}, {50.2, .2}, {47.6, .5}, {43.0, .7}}},
    {"terngrad",    {{91.4, .2}, {89.9, .2}, {87.9, .2}, {91.7, .1}, {89.6, .1}, {87.7, .3}, {86.9, .2}, {81.9, .5}, {79.2, .4}, {53.5, .4}, {52.1, .5}, {52.3, .3}}},
    {"drive",       {{91.6, .1}, {89.9, .2}, {88.1, .1}, {91.6, .1}, {89.6, .2}, {87.8, .3}, {87.2, .1}, {82.4, .4}, {79.4, .3}, {53.5, .2}, {52.5, .3}, {52.8, .2}}},
    {"eden",        {{91.4, .2}, {89.8, .2}, {88.3, .3}, {91.7, .1}, {89.7, .1}, {87.8, .2}, {87.5, .2}, {82.6, .4}, {79.8, .4}, {53.9, .3}, {53.1, .2}, {52.9, .1}}},
    {"fedmrn",      {{91.8, .1}, {90.2, .1}, {88.6, .2}, {92.2, .1}, {90.0, .3}, {88.5, .2}, {88.3, .2}, {84.6, .2}, {81.4, .4}, {55.4, .5}, {54.1, .2}, {53.9, .4}}},
    {"fedmrns",     {{92.0, .1}, {90.5, .2}, {88.9, .3}, {92.4, .2}, {90.5, .3}, {88.7, .4}, {88.0, .1}, {84.5, .3}, {81.0, .5}, {56.1, .5}, {54.7, .5}, {54.2, .3}}},
};

struct Row2 {
  std::string_view method;
  double columns[kImageSets];
};
constexpr Row2 kTable2[] = {
    {"fedpm",       {-36.4, -104.4, -112.3, -112.4}},
    {"fedsparsify", {-26.0, -40.1, -51.8, -73.8}},
    {"signsgd",     {-4.7, -6.8, -16.5, -34.1}},
    {"topk",        {-5.9, -7.3, -16.0, -24.5}},
    {"terngrad",    {-2.3, -2.5, -5.2, -7.5}},
    {"drive",       {-1.8, -2.4, -4.1, -6.6}},
    {"eden",        {-1.8, -2.3, -3.2, -5.5}},
    {"fedmrn",      {-0.7, -0.7, 1.2, -1.9}},
    {"fedmrns",     {0.1, 0.2, 0.4, -0.3}},
};

struct AppendixRow {
  std::string_view method;
  PaperAccuracy columns[std::size(kDataSets) - kImageSets];
};
constexpr AppendixRow kAppendix[] = {
    {"fedavg",  {{51.2, .2}, {53.8, .1}}},
    {"signsgd", {{38.0, .6}, {44.3, .3}}},
    {"eden",    {{49.6, .2}, {52.0, .2}}},
    {"fedmrn",  {{51.1, .1}, {54.2, .1}}},
};

// Colours that differ in lightness as well as in hue, on white and on black;
// neighbours in hue differ in their dashes.
constexpr MethodStyle kStyles[] = {
    {"fedavg",      "FedAvg",      kInk,      "solid"},
    {"fedpm",       "FedPM",       "#2e9b5b", "'-'"},
    {"fedsparsify", "FedSparsify", "#44aa99", "'.'"},
    {"signsgd",     "SignSGD",     "#0072b2", "solid"},
    {"topk",        "Top-k",       "#56b4e9", "'-'"},
    {"terngrad",    "TernGrad",    "#7a6fd0", "solid"},
    {"drive",       "DRIVE",       "#cc79a7", "solid"},
    {"drive-biased", "DRIVE (biased)", "#e3b7d0", "'.'"},
    {"eden",        "EDEN",        "#aa4499", "'-'"},
    {"fedmrn",      "FedMRN",      "#d55e00", "solid"},
    {"fedmrns",     "FedMRNS",     "#e69f00", "solid"},
    {"fedbat",      "FedBAT",      "#999933", "solid"},
    {"fedavg-sm",   "FedAvg w. SM", "#9a6b4f", "'-'"},
    {"fedavg-sms",  "FedAvg w. SM (signed)", "#b99a84", "'.'"},
};
// clang-format on
constexpr MethodStyle kUnknown = {"", "", kAxis, "'-'"};

template <typename Row>
const Row* FindRow(std::span<const Row> rows, std::string_view method) {
  const auto row = std::ranges::find(rows, method, &Row::method);
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace

std::span<const PaperData> PaperDataSets() { return kDataSets; }

const PaperData* FindPaperData(std::string_view name) {
  const auto data = std::ranges::find(kDataSets, name, &PaperData::name);
  return data == std::end(kDataSets) ? nullptr : data;
}

std::string DataTitle(std::string_view name) {
  const PaperData* data = FindPaperData(name);
  return std::string(data == nullptr ? name : data->title);
}

std::optional<PaperAccuracy> PaperResult(std::string_view method,
                                         std::string_view data,
                                         std::string_view partition_kind) {
  const PaperData* set = FindPaperData(data);
  if (set == nullptr) return std::nullopt;
  const auto partition =
      std::ranges::find(set->partitions, partition_kind, &PaperPartition::kind);
  if (partition == set->partitions.end()) return std::nullopt;
  const auto at = static_cast<size_t>(set - kDataSets);
  if (at >= kImageSets) {
    const AppendixRow* row = FindRow<AppendixRow>(kAppendix, method);
    if (row == nullptr) return std::nullopt;
    return row->columns[at - kImageSets];
  }
  const Row1* row = FindRow<Row1>(kTable1, method);
  if (row == nullptr) return std::nullopt;
  return row->columns[at * kPaperPartitions.size() +
                      static_cast<size_t>(partition - set->partitions.begin())];
}

std::optional<double> PaperTable2(std::string_view method,
                                  std::string_view data) {
  const Row2* row = FindRow<Row2>(kTable2, method);
  const PaperData* set = FindPaperData(data);
  if (row == nullptr || set == nullptr) return std::nullopt;
  const auto at = static_cast<size_t>(set - kDataSets);
  if (at >= kImageSets) return std::nullopt;
  return row->columns[at];
}

std::span<const MethodStyle> MethodStyles() { return kStyles; }

size_t MethodOrder(std::string_view method) {
  return static_cast<size_t>(
      std::ranges::find(kStyles, method, &MethodStyle::name) - kStyles);
}

const MethodStyle& StyleOf(std::string_view method) {
  const size_t at = MethodOrder(method);
  return at < std::size(kStyles) ? kStyles[at] : kUnknown;
}

std::string MethodTitle(std::string_view method) {
  const std::string_view title = StyleOf(method).title;
  return std::string(title.empty() ? method : title);
}

}  // namespace fedmrn::report
