#include "fedmrn/sim/executor.h"

namespace fedmrn::sim {

std::span<const ExecutorRow> Executors() {
  static constexpr ExecutorRow kRows[] = {
      {"threads", MakeThreadExecutor},
  };
  return kRows;
}

train::MethodSettings MethodSettingsOf(const Config& config) {
  const auto& method = config.method;
  const auto magnitude = static_cast<float>(method.magnitude);
  train::MethodSettings settings;
  settings.mask = {NoiseKind::kUniform, magnitude, method.stochastic,
                   method.progressive};
  if (method.noise == "gaussian") settings.mask.noise = NoiseKind::kGaussian;
  if (method.noise == "bernoulli") settings.mask.noise = NoiseKind::kBernoulli;
  settings.codec.stochastic = method.stochastic;
  settings.codec.scale = magnitude;
  settings.codec.keep = method.keep;
  settings.codec.clip = static_cast<float>(method.clip);
  settings.codec.unbiased = method.unbiased;
  settings.codec.bits = static_cast<int>(method.bits);
  settings.half = method.update == "float16";
  settings.plain_half = method.dense == "float16";
  settings.error_feedback = method.error_feedback;
  settings.adam = method.optimizer == "adam";
  settings.reset_every = method.reset_every;
  return settings;
}

client::Settings ClientSettingsOf(const Config& config) {
  return {
      config.seed,
      train::FindMethod(config.method.name),
      MethodSettingsOf(config),
      {config.train.epochs, config.train.batch,
       static_cast<float>(config.train.lr),
       static_cast<float>(config.train.momentum),
       static_cast<float>(config.train.weight_decay), config.train.drop_last}};
}

}  // namespace fedmrn::sim
