#include "fedmrn/train/model/model.h"

#include "fedmrn/train/registry.h"

namespace fedmrn::train {
namespace {

std::vector<std::string_view> ModelNames();

constexpr Choice kNorms[] = {
    {"batch", Norm::kBatch}, {"group", Norm::kGroup}, {"none", Norm::kNone}};

#define AT(member) FEDMRN_PLACE(ModelSettings, member)

constexpr ModelKey kKeys[] = {
    {"model.name", AT(name), "the network; default: the data set's",
     ModelNames},
    {"model.torchscript", AT(torchscript),
     "your own: a file made by torch.jit.script", Range{}, KeyRole::kFiles},
    {"model.masked", AT(coded),
     "torchscript: patterns of the tensors to compress, such as "
     "conv*.weight,!head*; empty: all of two or more dimensions"},
    {"model.loss", AT(loss), "torchscript: the loss", kLosses},
    {"model.init", AT(init),
     "file of tensors to start from: a model.pt, or a state_dict of torch.save",
     Range{}, KeyRole::kFiles},
    {"model.norm", AT(norm), "cnn4, cnn8: after each convolution", kNorms},
    {"model.backbone", AT(backbone), "bisenetv2: file of pre-trained tensors",
     Range{}, KeyRole::kFiles},
    {"model.head_lr", AT(head_lr),
     "bisenetv2: the heads learn faster by this factor", kPositive},
};

#undef AT

std::vector<const ModelKey*> Keys(
    std::initializer_list<std::string_view> names) {
  return KeysNamed<ModelSettings>(kKeys, names);
}

Registry<ModelRow>& Table() {
  static Registry<ModelRow> table = {
      {.name = "cnn4",
       .summary = "4 convolutions, the paper's for Fashion-MNIST and SVHN",
       .make = MakeCnn,
       .keys = Keys({"model.norm"})},
      {.name = "cnn8",
       .summary = "8 convolutions, the paper's for CIFAR",
       .make = MakeCnn,
       .keys = Keys({"model.norm"})},
      {.name = "charlstm",
       .summary = "LSTM of 256 units over characters, the paper's for "
                  "Shakespeare",
       .make = MakeCharLstm,
       .lr = 3.0,
       .magnitude = 1.0},
      {.name = "bisenetv2",
       .summary = "segments images, the paper's for PascalVOC",
       .make = MakeBiSeNetV2,
       .lr = 0.05,
       .magnitude = 0.03,
       .keys = Keys({"model.loss", "model.backbone", "model.head_lr"})},
      {.name = "torchscript",
       .summary = "your own, a file made by torch.jit.script",
       .make = MakeTorchScriptModel,
       .is_file = true,
       .keys = Keys({"model.torchscript", "model.masked", "model.loss"})},
  };
  return table;
}

std::vector<std::string_view> ModelNames() { return Table().names(); }

}  // namespace

std::span<const ModelKey> ModelKeys() { return kKeys; }

const std::deque<ModelRow>& Models() { return Table().rows(); }

const ModelRow* FindModel(std::string_view name) { return Table().Find(name); }

void RegisterModel(const ModelRow& model) { Table().Add(model); }

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
