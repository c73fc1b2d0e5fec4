#include "fedmrn/train/model/model.h"

namespace fedmrn::train {
namespace {

constexpr ModelRow kModels[] = {
    {"cnn4", "4 convolutions, the paper's for Fashion-MNIST and SVHN", MakeCnn},
    {"cnn8", "8 convolutions, the paper's for CIFAR", MakeCnn},
    {"charlstm",
     "LSTM of 256 units over characters, the paper's for Shakespeare",
     MakeCharLstm, 3.0, 1.0},
    {"bisenetv2", "segments images, the paper's for PascalVOC", MakeBiSeNetV2,
     0.05, 0.03},
    {"torchscript", "your own, a file made by torch.jit.script",
     MakeTorchScriptModel},
};

}  // namespace

std::span<const ModelRow> Models() { return kModels; }

const ModelRow* FindModel(std::string_view name) {
  for (const ModelRow& row : kModels) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<TorchScriptTensor> TensorsOf(const ModelLayout& layout,
                                         uint64_t trainable_plain,
                                         std::span<const float> coded,
                                         std::span<const float> plain) {
  std::vector<TorchScriptTensor> tensors;
  size_t coded_at = 0, plain_at = 0;
  for (const TensorLayout& tensor : layout.tensors) {
    const std::span<const float> from = tensor.coded ? coded : plain;
    size_t& at = tensor.coded ? coded_at : plain_at;
    const bool trainable = tensor.coded || at < trainable_plain;
    tensors.push_back({tensor.name,
                       {tensor.shape.begin(), tensor.shape.end()},
                       from.subspan(at, tensor.size()),
                       trainable});
    at += tensor.size();
  }
  return tensors;
}

}  // namespace fedmrn::train
