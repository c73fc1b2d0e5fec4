// The optimizer of the plain networks, step by step what torch::optim::SGD
// does; its header takes longer to compile than both networks.
#pragma once

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/core/grad_mode.h>
// clang-format on

#include <utility>
#include <vector>

namespace fedmrn::train {

class PlainSgd {
 public:
  PlainSgd(std::vector<at::Tensor> parameters, double lr)
      : parameters_(std::move(parameters)), lr_(lr) {}

  void ZeroGradients() {
    for (at::Tensor& p : parameters_) {
      if (p.grad().defined()) p.mutable_grad().zero_();
    }
  }
  void Step() {
    const at::NoGradGuard no_gradient;
    for (at::Tensor& p : parameters_) {
      if (p.grad().defined()) p.add_(p.grad(), -lr_);
    }
  }

 private:
  std::vector<at::Tensor> parameters_;
  double lr_;
};

}  // namespace fedmrn::train
