// FedAvg (McMahan et al.): plain SGD from the global model; the update is the
// difference, and every compressor after training starts from it.
#include "fedmrn/train/method/method.h"

namespace fedmrn::train {

bool TrainFedAvg(const ClientWork& work, LocalModel& local) {
  std::vector<float>& w = local.trained;
  w.assign(work.weights.begin(), work.weights.end());
  const bool done = ForEachBatch(
      work, [&](uint32_t step, uint32_t, std::span<const uint32_t> examples) {
        work.learner.Gradient(examples, BatchDraws(work, step), w, local.plain,
                              local.coded_gradient, local.plain_gradient);
        ShapeGradients(work, w, work.weights, local);
        Direction(work.train, w, local.coded_velocity, local.coded_gradient);
        SgdStep(work.train.lr, local.coded_gradient, w);
        StepPlain(work, local);
      });
  for (size_t i = 0; i < w.size(); ++i) {
    local.update[i] = w[i] - work.weights[i];
  }
  return done;
}

}  // namespace fedmrn::train
