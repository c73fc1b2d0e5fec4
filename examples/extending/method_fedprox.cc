// A method: FedProx (Li et al.), SGD that mu pulls back to the global model.
#include "mine.h"

namespace mine {

const train::MethodKey kFedProxMu = {
    .name = "method.mu",
    .place = [](train::MethodSettings& settings) -> Place {
      return &settings.own.try_emplace("mu", 0.01).first->second;
    },
    .help = "fedprox: the pull back to the global model"};

bool TrainFedProx(const train::ClientWork& work, train::LocalModel& local) {
  const auto mu = static_cast<float>(work.method.own.at("mu"));
  std::vector<float>& w = local.trained;
  w.assign(work.weights.begin(), work.weights.end());
  const bool done = train::ForEachBatch(
      work, [&](uint32_t step, uint32_t, std::span<const uint32_t> examples) {
        std::vector<float>& gradient = local.coded_gradient;
        work.learner.Gradient(examples, train::BatchDraws(work, step), w,
                              local.plain, gradient, local.plain_gradient);
        for (size_t i = 0; i < w.size(); ++i) {
          gradient[i] += mu * (w[i] - work.weights[i]);
        }
        train::SgdDirection(work.train, w, local.coded_velocity, gradient);
        train::SgdStep(work.train.lr, gradient, w);
        train::StepPlain(work, local);
      });
  for (size_t i = 0; i < w.size(); ++i) {
    local.update[i] = w[i] - work.weights[i];  // what the row's codec encodes
  }
  return done;
}

}  // namespace mine
