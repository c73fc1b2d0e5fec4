// What the paper reports, to stand beside what was measured here: Tables 1 and
// 2 and the appendix's other tasks of "Masked Random Noise for Communication
// Efficient Federated Learning", with the settings behind them; and how methods
// are called and drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fedmrn::report {

// The paper's partitions, in its order.
struct PaperPartition {
  std::string_view kind;  // partition.kind of a config
  std::string_view name;
};
inline constexpr std::array<PaperPartition, 3> kPaperPartitions = {
    {{"iid", "IID"}, {"dirichlet", "Non-IID-1"}, {"labels", "Non-IID-2"}}};
inline constexpr PaperPartition kRoles[] = {{"natural", "by role"}};
inline constexpr PaperPartition kByClass[] = {{"labels", "by class"}};

inline constexpr uint32_t kPaperSeeds = 5;

struct PaperKey {
  std::string_view key, value;
};

struct PaperData {
  std::string_view name;  // data.name of a config
  std::string_view title;
  uint32_t rounds, epochs, batch;
  std::string_view model;
  std::span<const PaperPartition> partitions;
  double alpha = 0;                // of Non-IID-1
  uint32_t labels_per_client = 0;  // of Non-IID-2
  // Where it departs from this program's defaults; values as JSON has them.
  std::span<const PaperKey> keys = {};
  bool pre_trained = false;  // starts from model.backbone
};
std::span<const PaperData> PaperDataSets();
const PaperData* FindPaperData(std::string_view name);  // null: not in it
// "FMNIST"; names that the paper does not have, as they are.
std::string DataTitle(std::string_view name);

struct PaperAccuracy {
  double mean, std;  // percent, of five seeds
};
// Table 1 or the appendix's, by a config's names; nothing if the paper does not
// have it.
std::optional<PaperAccuracy> PaperResult(std::string_view method,
                                         std::string_view data,
                                         std::string_view partition_kind);
// Table 2: accuracy lost against FedAvg, summed over the three partitions.
std::optional<double> PaperTable2(std::string_view method,
                                  std::string_view data);

// Its place in tables, name and look in plots are a method's own on all pages.
struct MethodStyle {
  std::string_view name;  // method.name of a config
  std::string_view title;
  std::string_view colour;
  std::string_view dashes;  // gnuplot's dashtype
};
// The paper's order, then what is not in its tables.
std::span<const MethodStyle> MethodStyles();
// A method without a row is drawn in grey, and its style has no title.
const MethodStyle& StyleOf(std::string_view method);
// Where it stands in MethodStyles; methods without a row come last.
size_t MethodOrder(std::string_view method);
std::string MethodTitle(std::string_view method);

}  // namespace fedmrn::report
