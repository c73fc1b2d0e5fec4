// FedMRN (paper, Algorithm 1, ClientLocalUpdate): the global weights w stay
// frozen; the update u starts at zero and learns, through progressive
// stochastic masking, to be a mask on noise that the server can draw itself.
#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

bool Train(MaskKind kind, const ClientWork& work, LocalModel& local) {
  const MaskSettings& mask = work.method.mask;
  const Masking masking{kind, mask.stochastic, mask.progressive, work.noise,
                        work.draw_seed};
  const float lr = work.train.lr;
  std::vector<float>& u = local.update;
  std::vector<float>& effective = local.trained;  // w + u_hat
  u.assign(work.weights.size(), 0.0f);
  effective.resize(u.size());
  return ForEachBatch(work, [&](uint32_t step, uint32_t total_steps,
                                std::span<const uint32_t> examples) {
    if (step == 1) {
      MaskedStep(masking, {1, total_steps, lr}, work.weights, {}, u, effective);
    }
    work.learner.Gradient(examples, BatchDraws(work, step), effective,
                          local.plain, local.coded_gradient,
                          local.plain_gradient);
    ShapeGradients(work, u, {}, local);
    Direction(work.train, u, local.coded_velocity, local.coded_gradient);
    if (step < total_steps) {
      MaskedStep(masking, {step + 1, total_steps, lr}, work.weights,
                 local.coded_gradient, u, effective);
    } else {  // what is left of u becomes the final mask, in the codec
      SgdStep(lr, local.coded_gradient, u);
    }
    StepPlain(work, local);
  });
}

}  // namespace

bool TrainFedMrn(const ClientWork& work, LocalModel& local) {
  return Train(MaskKind::kBinary, work, local);
}

bool TrainFedMrnS(const ClientWork& work, LocalModel& local) {
  return Train(MaskKind::kSigned, work, local);
}

}  // namespace fedmrn::train
