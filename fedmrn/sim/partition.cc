#include "fedmrn/sim/partition.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"

namespace fedmrn::sim {
namespace {

// `sub` of the streams; each attempt at a Dirichlet partition has its own.
enum : uint32_t {
  kSubExamples = 0,
  kSubLabels = 1,
  kSubHeldOut = 2,
  kSubFirstAttempt = 1 << 16,
};

Random Draws(const PartitionSettings& settings, uint32_t sub) {
  return Random({settings.seed, Purpose::kPartition, sub});
}

// What is divided.
struct Input {
  const PartitionSettings& settings;
  std::span<const uint16_t> labels;
  uint32_t classes;
  std::span<const uint32_t> natural_clients;
};

struct Owners {
  uint32_t clients;
  std::vector<uint32_t> of_example;
};

Error Impossible(const std::string& message) {
  return {ErrorCode::kBadValue, message};
}

std::string Text(uint64_t value) { return std::to_string(value); }

// The examples of each key, ascending.
template <typename Key>
Partition GroupBy(std::span<const Key> keys, uint32_t groups) {
  Partition out;
  out.begin.resize(groups + size_t{1});
  for (const Key key : keys) ++out.begin[key + size_t{1}];
  std::partial_sum(out.begin.begin(), out.begin.end(), out.begin.begin());
  out.examples.resize(keys.size());
  std::vector<uint32_t> next(out.begin.begin(), out.begin.end() - 1);
  for (size_t i = 0; i < keys.size(); ++i) {
    out.examples[next[keys[i]]++] = static_cast<uint32_t>(i);
  }
  return out;
}

// A label in the place of a client.
Partition ShuffledByLabel(const Input& input) {
  Partition by_label = GroupBy(input.labels, input.classes);
  Random random = Draws(input.settings, kSubExamples);
  for (size_t label = 0; label < input.classes; ++label) {
    random.Shuffle(
        std::span(by_label.examples)
            .subspan(by_label.begin[label], by_label.of(label).size()));
  }
  return by_label;
}

// Like numpy's array_split: the first ones get one more.
void SplitEvenly(std::span<const uint32_t> examples,
                 std::span<const uint32_t> clients, Owners& owners) {
  const size_t each = examples.size() / clients.size();
  const size_t longer = examples.size() % clients.size();
  size_t next = 0;
  for (size_t i = 0; i < clients.size(); ++i) {
    for (size_t n = each + (i < longer ? 1 : 0); n > 0; --n) {
      owners.of_example[examples[next++]] = clients[i];
    }
  }
}

Owners Nobodys(const Input& input) {
  return {input.settings.clients, std::vector<uint32_t>(input.labels.size())};
}

std::vector<uint32_t> UpTo(size_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Result<Owners> Iid(const Input& input) {
  std::vector<uint32_t> order = UpTo(input.labels.size());
  Draws(input.settings, kSubExamples).Shuffle(std::span(order));
  Owners owners = Nobodys(input);
  SplitEvenly(order, UpTo(input.settings.clients), owners);
  return owners;
}

// One attempt at Non-IID-1: give(label, client, examples) for each client in
// turn; returns the smallest client's size. What is given depends on sizes
// alone, so that only the attempt that succeeds has to touch examples.
template <typename Give>
uint32_t DivideByDirichlet(const Input& input, const Partition& by_label,
                           uint32_t attempt, Give give) {
  const uint32_t clients = input.settings.clients;
  const double fair_share = static_cast<double>(input.labels.size()) / clients;
  Random random = Draws(input.settings, kSubFirstAttempt + attempt);
  std::vector<uint32_t> sizes(clients);
  std::vector<double> shares(clients);
  for (uint32_t label = 0; label < input.classes; ++label) {
    const auto count = static_cast<uint32_t>(by_label.of(label).size());
    double sum = 0;
    for (uint32_t k = 0; k < clients; ++k) {
      const double gamma = random.Gamma(input.settings.alpha);
      shares[k] = sizes[k] < fair_share ? gamma : 0;
      sum += shares[k];
    }
    if (!(sum > 0)) return 0;  // a tiny alpha's draws all vanished
    uint32_t given = 0;
    double cumulative = 0;
    for (uint32_t k = 0; k < clients; ++k) {
      cumulative += shares[k] / sum;
      const uint32_t end =
          k + 1 == clients
              ? count
              : std::min(count, static_cast<uint32_t>(cumulative * count));
      give(label, k, end - given);
      sizes[k] += end - given;
      given = end;
    }
  }
  return *std::ranges::min_element(sizes);
}

Result<Owners> Dirichlet(const Input& input) {
  const PartitionSettings& settings = input.settings;
  const uint64_t least = std::max(settings.min_examples, 1u);
  if (least * settings.clients > input.labels.size()) {
    return Impossible("partition.min_examples: " + Text(settings.clients) +
                      " clients cannot have " + Text(least) + " of " +
                      Text(input.labels.size()) +
                      " examples each: set it to at most " +
                      Text(input.labels.size() / settings.clients) +
                      " or take fewer clients");
  }
  // A few seconds at most, however many clients.
  const uint32_t attempts = std::clamp<uint64_t>(
      20'000'000 / (uint64_t{settings.clients} * input.classes), 20, 10'000);
  const Partition by_label = ShuffledByLabel(input);
  for (uint32_t attempt = 0; attempt < attempts; ++attempt) {
    if (DivideByDirichlet(input, by_label, attempt,
                          [](uint32_t, uint32_t, uint32_t) {}) < least) {
      continue;
    }
    Owners owners = Nobodys(input);
    std::vector<uint32_t> next = by_label.begin;
    DivideByDirichlet(input, by_label, attempt,
                      [&](uint32_t label, uint32_t client, uint32_t count) {
                        for (; count > 0; --count) {
                          owners.of_example[by_label.examples[next[label]++]] =
                              client;
                        }
                      });
    return owners;
  }
  return Impossible("partition.min_examples: " + Text(attempts) +
                    " draws left a client with fewer than " + Text(least) +
                    " examples: set it lower, partition.alpha higher, or take "
                    "fewer clients");
}

Result<Owners> ByLabels(const Input& input) {
  const PartitionSettings& settings = input.settings;
  const Partition by_label = ShuffledByLabel(input);
  std::vector<uint32_t> present;  // not all, where few examples are used
  for (uint32_t label = 0; label < input.classes; ++label) {
    if (!by_label.of(label).empty()) present.push_back(label);
  }
  const uint32_t each = settings.labels_per_client;
  if (each == 0 || each > present.size()) {
    return Impossible("partition.labels_per_client: " + Text(each) +
                      " labels for each client, but the examples have " +
                      Text(present.size()) + ": set it from 1 to " +
                      Text(present.size()));
  }
  if (uint64_t{each} * settings.clients < present.size()) {
    return Impossible(
        "partition.labels_per_client: " + Text(settings.clients) +
        " clients with " + Text(each) + " labels each leave some of the " +
        Text(present.size()) + " labels to nobody: set it to at least " +
        Text((present.size() + settings.clients - 1) / settings.clients) +
        " or take more clients");
  }
  // A client takes the labels that fewest clients have, so that all are held
  // and equally often. The authors sort by that alone, which gives the labels
  // in turn; here ties are broken at random.
  Random random = Draws(settings, kSubLabels);
  std::vector<std::vector<uint32_t>> holders(input.classes);
  for (uint32_t client = 0; client < settings.clients; ++client) {
    std::vector<uint32_t> order = present;
    if (!settings.cyclic) random.Shuffle(std::span(order));
    std::ranges::stable_sort(
        order, {}, [&](uint32_t label) { return holders[label].size(); });
    for (uint32_t i = 0; i < each; ++i) holders[order[i]].push_back(client);
  }
  Owners owners = Nobodys(input);
  for (const uint32_t label : present) {
    SplitEvenly(by_label.of(label), holders[label], owners);
  }
  return owners;
}

Result<Owners> Natural(const Input& input) {
  if (input.natural_clients.empty()) {
    return Impossible(
        "partition.kind: this data does not come with clients of its own: "
        "choose iid, dirichlet or labels instead of natural");
  }
  FEDMRN_CHECK(input.natural_clients.size() == input.labels.size());
  // Only those that have examples, in the order of their ids.
  std::vector<uint32_t> ids(input.natural_clients.begin(),
                            input.natural_clients.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Owners owners = Nobodys(input);
  owners.clients = static_cast<uint32_t>(ids.size());
  for (size_t i = 0; i < input.labels.size(); ++i) {
    owners.of_example[i] = static_cast<uint32_t>(
        std::ranges::lower_bound(ids, input.natural_clients[i]) - ids.begin());
  }
  return owners;
}

Result<Owners> Divide(const Input& input) {
  switch (input.settings.kind) {
    case PartitionKind::kIid:
      return Iid(input);
    case PartitionKind::kDirichlet:
      return Dirichlet(input);
    case PartitionKind::kLabels:
      return ByLabels(input);
    case PartitionKind::kNatural:
      return Natural(input);
  }
  FEDMRN_CHECK(false, "no such kind");
}

#define AT(member) FEDMRN_PLACE(PartitionSettings, member)

constexpr PartitionKey kPartitionKeys[] = {
    {"partition.kind", AT(kind),
     "how clients share the examples; default: the data set's way",
     kPartitionKinds},
    {"partition.clients", AT(clients),
     "number of clients; natural: given by the data", kFromOne, KeyRole::kData},
    {"partition.labels_per_client", AT(labels_per_client),
     "labels: of each client", kFromOne},
    {"partition.labels_assignment", AT(cyclic),
     "labels: dealt out at random, each equally often, or in turn as the "
     "authors' code does",
     kLabelsAssignments},
    {"partition.alpha", AT(alpha), "dirichlet: the smaller, the more uneven",
     kPositive},
    {"partition.min_examples", AT(min_examples),
     "dirichlet: the least of each client"},
    {"partition.seed", AT(seed),
     "of who has which examples; fixed, so that seeds compare"},
};

#undef AT

}  // namespace

std::span<const PartitionKey> PartitionKeys() { return kPartitionKeys; }

std::span<const PartitionRow> PartitionRows() {
  static const PartitionRow rows[] = {
      {"dirichlet",
       KeysNamed<PartitionSettings>(
           kPartitionKeys, {"partition.alpha", "partition.min_examples"})},
      {"labels", KeysNamed<PartitionSettings>(
                     kPartitionKeys, {"partition.labels_per_client",
                                      "partition.labels_assignment"})}};
  return rows;
}

Result<Partition> MakePartition(const PartitionSettings& settings,
                                std::span<const uint16_t> labels,
                                uint32_t classes,
                                std::span<const uint32_t> natural_clients) {
  FEDMRN_CHECK(settings.clients > 0 && settings.alpha > 0);
  FEDMRN_CHECK(labels.size() <= UINT32_MAX);
  for (const uint16_t label : labels) FEDMRN_CHECK(label < classes);
  if (labels.empty()) return Impossible("there are no examples to divide");
  if (settings.kind != PartitionKind::kNatural &&
      settings.clients > labels.size()) {
    return Impossible("partition.clients: " + Text(settings.clients) +
                      " clients for " + Text(labels.size()) +
                      " examples: set it to at most " + Text(labels.size()));
  }
  const Result<Owners> owners =
      Divide({settings, labels, classes, natural_clients});
  if (!owners) return owners.error();
  Partition partition =
      GroupBy(std::span<const uint32_t>(owners->of_example), owners->clients);
  for (size_t k = 0; k < partition.clients(); ++k) {
    if (partition.of(k).empty()) {
      return Impossible("partition.clients: client " + Text(k) +
                        " would have no example: take fewer clients or more "
                        "examples");
    }
  }
  return partition;
}

Result<Partition> HoldOut(double share, const PartitionSettings& settings,
                          Partition& partition) {
  FEDMRN_CHECK(share > 0 && share < 1);
  Random random = Draws(settings, kSubHeldOut);
  Partition held_out, rest;
  held_out.begin.push_back(0);
  rest.begin.push_back(0);
  for (size_t client = 0; client < partition.clients(); ++client) {
    std::vector<uint32_t> examples(partition.of(client).begin(),
                                   partition.of(client).end());
    random.Shuffle(std::span(examples));
    const auto held =
        static_cast<ptrdiff_t>(share * static_cast<double>(examples.size()));
    const auto add = [](auto first, auto last, Partition& to) {
      std::sort(first, last);
      to.examples.insert(to.examples.end(), first, last);
      to.begin.push_back(static_cast<uint32_t>(to.examples.size()));
    };
    add(examples.begin(), examples.begin() + held, held_out);
    add(examples.begin() + held, examples.end(), rest);
  }
  if (held_out.examples.empty()) {
    return Impossible(
        "data.validation: no client has so many examples that this share is "
        "one of them: set it higher, or take fewer clients");
  }
  partition = std::move(rest);
  return held_out;
}

}  // namespace fedmrn::sim
