#include "fedmrn/train/torch/plain_script.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
#include <ATen/core/ivalue.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>
#include <utility>
#include <vector>

#include "fedmrn/train/torch/plain_sgd.h"

namespace fedmrn::train {
namespace {

std::vector<at::Tensor> Parameters(const torch::jit::Module& module) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& p : module.parameters()) {
    if (p.requires_grad()) parameters.push_back(p);
  }
  return parameters;
}

class PlainScript final : public PlainNetwork {
 public:
  PlainScript(torch::jit::Module module, double lr)
      : module_(std::move(module)), optimizer_(Parameters(module_), lr) {
    module_.train();
  }

  double Step(const Batch& batch) override {
    const at::Tensor x =
        at::from_blob(const_cast<float*>(batch.x.data()), batch.shape)
            .permute({0, 3, 1, 2})
            .clone(at::MemoryFormat::Contiguous);
    optimizer_.ZeroGradients();
    const c10::IValue result = module_.forward({x});
    // Several outputs: of auxiliary heads, after the main one.
    std::vector<at::Tensor> outputs;
    if (result.isTuple()) {
      for (const c10::IValue& output : result.toTupleRef().elements()) {
        if (output.isTensor()) outputs.push_back(output.toTensor());
      }
    } else {
      outputs = result.isTensorList()
                    ? result.toTensorVector()
                    : std::vector<at::Tensor>{result.toTensor()};
    }
    at::Tensor loss = Loss(outputs.front(), batch);
    for (size_t i = 1; i < outputs.size(); ++i) {
      loss = loss + Loss(outputs[i], batch);
    }
    loss.backward();
    optimizer_.Step();
    return loss.item<double>();
  }

 private:
  static at::Tensor Loss(const at::Tensor& output, const Batch& batch) {
    std::vector<int64_t> shape = output.sizes().vec();
    shape.erase(shape.begin() + 1);
    return at::cross_entropy_loss(
        output, at::tensor(std::vector<int64_t>(batch.labels.begin(),
                                                batch.labels.end()))
                    .view(shape));
  }

  torch::jit::Module module_;
  PlainSgd optimizer_;
};

}  // namespace

std::unique_ptr<PlainNetwork> MakePlainScript(const std::string& contents,
                                              double lr) {
  std::istringstream stream(contents);
  return std::make_unique<PlainScript>(torch::jit::load(stream, c10::kCPU), lr);
}

}  // namespace fedmrn::train
