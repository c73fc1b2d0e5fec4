#include "fedmrn/train/torch/plain_lstm.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/TensorOperators.h>
// clang-format on
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <dlfcn.h>

#include "fedmrn/train/model/char_lstm.h"
#include "fedmrn/train/torch/plain_sgd.h"

namespace fedmrn::train {
namespace {

// LibTorch's products are those of the system's BLAS. OpenBLAS may have threads
// of its own, which one client per core would only wait for.
void UseOneBlasThread() {
  const auto set_threads = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
}

class PlainLstm final : public PlainNetwork {
 public:
  PlainLstm(uint32_t vocabulary, uint32_t classes, double lr)
      : embedding_(New({vocabulary, CharLstm::kEmbedding})),
        input_weights_(New({CharLstm::kEmbedding, 4 * CharLstm::kUnits})),
        weights_(New({CharLstm::kUnits, 4 * CharLstm::kUnits})),
        linear_(New({CharLstm::kUnits, classes})),
        optimizer_({embedding_, input_weights_, weights_, linear_}, lr) {
    UseOneBlasThread();
  }

  double Step(const Batch& batch) override {
    const auto tensor = [](const std::vector<int32_t>& values) {
      return at::tensor(std::vector<int64_t>(values.begin(), values.end()));
    };
    const int64_t rows = batch.examples;
    const at::Tensor x =
        at::embedding(embedding_, tensor(batch.tokens).view({rows, -1}));
    at::Tensor h = at::zeros({rows, CharLstm::kUnits}), c = h;
    for (int64_t t = 0; t < x.size(1); ++t) {
      const at::Tensor z = x.select(1, t).mm(input_weights_) + h.mm(weights_);
      const std::vector<at::Tensor> gates = z.chunk(4, 1);
      c = at::sigmoid(gates[1]) * c +
          at::sigmoid(gates[0]) * at::tanh(gates[2]);
      h = at::sigmoid(gates[3]) * at::tanh(c);
    }
    const at::Tensor logits =
        at::dropout(h, CharLstm::kDropout, true).mm(linear_);
    const at::Tensor loss =
        at::cross_entropy_loss(logits, tensor(batch.labels));
    optimizer_.ZeroGradients();
    loss.backward();
    optimizer_.Step();
    return loss.item<double>();
  }

 private:
  static at::Tensor New(std::vector<int64_t> shape) {
    return at::randn(shape).mul_(0.01).requires_grad_();
  }

  at::Tensor embedding_, input_weights_, weights_, linear_;
  PlainSgd optimizer_;
};

}  // namespace

std::unique_ptr<PlainNetwork> MakePlainLstm(uint32_t vocabulary,
                                            uint32_t classes, double lr) {
  return std::make_unique<PlainLstm>(vocabulary, classes, lr);
}

}  // namespace fedmrn::train
