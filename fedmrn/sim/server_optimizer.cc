#include "fedmrn/sim/server_optimizer.h"

#include <algorithm>
#include <cmath>

#include "fedmrn/base/check.h"

namespace fedmrn::sim {
namespace {

std::vector<std::string_view> Names() {
  std::vector<std::string_view> names;
  for (const ServerOptimizer& row : ServerOptimizers()) {
    names.push_back(row.name);
  }
  return names;
}

constexpr Range kBeta = {.high = 1, .below_high = true};

#define AT(member) FEDMRN_PLACE(ServerSettings, member)

constexpr Key<ServerSettings> kServerKeys[] = {
    {"server.optimizer", AT(optimizer),
     "what the server does with the mean update; none: adds it", Names},
    {"server.lr", AT(lr),
     "the server's learning rate; default: momentum 1, adam and yogi 0.01",
     kPositive, KeyRole::kTuning},
    {"server.beta1", AT(beta1), "how much of the first moment stays", kBeta,
     KeyRole::kTuning},
    {"server.beta2", AT(beta2), "how much of the second moment stays", kBeta,
     KeyRole::kTuning},
    {"server.tau", AT(tau), "added to the root of the second moment", kPositive,
     KeyRole::kTuning},
};

#undef AT

double Momentum(const ServerSettings& settings, double delta, float& first,
                float&) {
  first = static_cast<float>(settings.beta1 * double{first} + delta);
  return settings.lr * double{first};
}

// What FedAdam and FedYogi have in common, once the second moment is renewed.
double Adaptive(const ServerSettings& settings, double delta, float& first,
                double second) {
  first = static_cast<float>(settings.beta1 * double{first} +
                             (1 - settings.beta1) * delta);
  return settings.lr * double{first} / (std::sqrt(second) + settings.tau);
}

double Adam(const ServerSettings& settings, double delta, float& first,
            float& second) {
  second = static_cast<float>(settings.beta2 * double{second} +
                              (1 - settings.beta2) * delta * delta);
  return Adaptive(settings, delta, first, second);
}

double Yogi(const ServerSettings& settings, double delta, float& first,
            float& second) {
  const double square = delta * delta, before = second;
  const double sign = (before > square) - (before < square);
  second = static_cast<float>(before - (1 - settings.beta2) * square * sign);
  return Adaptive(settings, delta, first, second);
}

}  // namespace

std::span<const Key<ServerSettings>> ServerKeys() { return kServerKeys; }

std::span<const ServerOptimizer> ServerOptimizers() {
  const auto keys = [](std::initializer_list<std::string_view> names) {
    return KeysNamed<ServerSettings>(kServerKeys, names);
  };
  static const ServerOptimizer rows[] = {
      {"none", "the mean update is added (paper, Eq. 5)", 1, nullptr, {}},
      {"momentum", "FedAvgM", 1, Momentum, keys({"server.lr", "server.beta1"})},
      {"adam", "FedAdam", 0.01, Adam,
       keys({"server.lr", "server.beta1", "server.beta2", "server.tau"})},
      {"yogi", "FedYogi", 0.01, Yogi,
       keys({"server.lr", "server.beta1", "server.beta2", "server.tau"})},
  };
  return rows;
}

const ServerOptimizer* FindServerOptimizer(std::string_view name) {
  for (const ServerOptimizer& row : ServerOptimizers()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

void StepModel(const ServerSettings& settings, std::span<const float> update,
               std::span<const float> plain, size_t trainable_plain,
               GlobalModel& model) {
  const auto step = FindServerOptimizer(settings.optimizer)->step;
  FEDMRN_CHECK(step != nullptr);
  const size_t count = update.size() + trainable_plain;
  Moments& moments = model.moments;
  if (moments.first.empty()) {  // Algorithm 2: v starts at tau^2 or above
    moments.first.assign(count, 0.0f);
    moments.second.assign(count,
                          static_cast<float>(settings.tau * settings.tau));
  }
  FEDMRN_CHECK(moments.first.size() == count && moments.second.size() == count);
  size_t at = 0;
  const auto move = [&](double delta, float& value) {
    value = static_cast<float>(double{value} + step(settings, delta,
                                                    moments.first[at],
                                                    moments.second[at]));
    ++at;
  };
  for (size_t i = 0; i < update.size(); ++i) {
    move(update[i], model.weights[i]);
  }
  for (size_t i = 0; i < trainable_plain; ++i) {
    move(double{plain[i]} - double{model.plain[i]}, model.plain[i]);
  }
  std::copy(plain.begin() + static_cast<ptrdiff_t>(trainable_plain),
            plain.end(),
            model.plain.begin() + static_cast<ptrdiff_t>(trainable_plain));
}

}  // namespace fedmrn::sim
