#include "fedmrn/train/torch/plain_lstm.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>
// clang-format on
#include <dlfcn.h>
#include <torch/utils.h>

#include "fedmrn/train/model/char_lstm.h"

namespace fedmrn::train {
namespace {

// LibTorch's products are those of the system's BLAS. OpenBLAS may have threads
// of its own, which one client per core would only wait for.
void UseOneBlasThread() {
  const auto set_threads = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
}

class Plain final : public PlainNetwork {
 public:
  Plain(uint32_t vocabulary, uint32_t classes, double lr)
      : embedding_(New({vocabulary, CharLstm::kEmbedding})),
        input_weights_(New({CharLstm::kEmbedding, 4 * CharLstm::kUnits})),
        weights_(New({CharLstm::kUnits, 4 * CharLstm::kUnits})),
        linear_(New({CharLstm::kUnits, classes})),
        optimizer_({embedding_, input_weights_, weights_, linear_}, lr) {
    UseOneBlasThread();
  }

  double Step(const Batch& batch) override {
    const auto tensor = [](const std::vector<int32_t>& values) {
      return torch::tensor(std::vector<int64_t>(values.begin(), values.end()));
    };
    const int64_t rows = batch.examples;
    const torch::Tensor x =
        torch::embedding(embedding_, tensor(batch.tokens).view({rows, -1}));
    torch::Tensor h = torch::zeros({rows, CharLstm::kUnits}), c = h;
    for (int64_t t = 0; t < x.size(1); ++t) {
      const torch::Tensor z =
          x.select(1, t).mm(input_weights_) + h.mm(weights_);
      const std::vector<torch::Tensor> gates = z.chunk(4, 1);
      c = torch::sigmoid(gates[1]) * c +
          torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
      h = torch::sigmoid(gates[3]) * torch::tanh(c);
    }
    const torch::Tensor logits =
        torch::dropout(h, CharLstm::kDropout, true).mm(linear_);
    const torch::Tensor loss =
        torch::cross_entropy_loss(logits, tensor(batch.labels));
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }

 private:
  static torch::Tensor New(std::vector<int64_t> shape) {
    return (0.01 * torch::randn(shape)).requires_grad_();
  }

  torch::Tensor embedding_, input_weights_, weights_, linear_;
  torch::optim::SGD optimizer_;
};

}  // namespace

std::unique_ptr<PlainNetwork> MakePlainLstm(uint32_t vocabulary,
                                            uint32_t classes, double lr) {
  return std::make_unique<Plain>(vocabulary, classes, lr);
}

}  // namespace fedmrn::train
