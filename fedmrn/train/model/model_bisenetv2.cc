// The network of bisenetv2.h as a row of the models' table.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "fedmrn/core/random.h"
#include "fedmrn/train/model/bisenetv2.h"
#include "fedmrn/train/model/model.h"
#include "fedmrn/train/model/script_model.h"

namespace fedmrn::train {
namespace {

using Kind = BiSeNetV2::Kind;
using TensorTable = std::map<std::string, BiSeNetV2::Tensor>;
using Values = std::map<std::string, std::vector<float>>;

size_t SizeOf(const std::vector<int64_t>& shape) {
  size_t size = 1;
  for (const int64_t side : shape) size *= static_cast<size_t>(side);
  return size;
}

Result<std::string> MakeContents(const BiSeNetV2& network) {
  size_t largest = 0;
  for (const auto& tensor : network.tensors) {
    largest = std::max(largest, SizeOf(tensor.shape));
  }
  const std::vector<float> zeros(largest);  // initialize() knows better
  std::vector<TorchScriptTensor> tensors;
  for (const auto& [name, shape, kind] : network.tensors) {
    tensors.push_back({name, shape, std::span(zeros).first(SizeOf(shape)),
                       kind != Kind::kMean && kind != Kind::kVariance});
  }
  return MakeTorchScript(tensors, network.source);
}

// The file's tensors for the backbone. Of each branch it has all or none, as in
// the code that such files are written for.
Result<Values> ReadBackbone(const TorchModule& torch, const std::string& path,
                            const TensorTable& wanted) {
  const auto bad = [&](const std::string& why) {
    return Error{ErrorCode::kBadValue, path + ": " + why};
  };
  const Result<std::string> contents = ReadModelFile(path);
  if (!contents) return contents.error();
  const auto read = [&] { return torch.read_tensors(path, *contents); };
  FEDMRN_TRY(TryWithLibTorch(path, [&] { (void)read(); }));
  Result<std::vector<NamedTensor>> tensors = read();
  if (!tensors) return tensors.error();
  const auto branch = [](const std::string& name) {
    return name.substr(0, name.find('.'));
  };
  Values values;
  std::set<std::string> branches;
  for (NamedTensor& tensor : *tensors) {
    if (!BiSeNetV2::InBackbone(tensor.name)) continue;
    const auto want = wanted.find(tensor.name);
    if (want == wanted.end()) {
      return bad("tensor " + tensor.name + " has no place in bisenetv2");
    }
    if (want->second.shape != tensor.shape) {
      return bad("tensor " + tensor.name + " has the shape " +
                 ShapeText(tensor.shape) + "; bisenetv2 needs " +
                 ShapeText(want->second.shape));
    }
    branches.insert(branch(tensor.name));
    values[tensor.name] = std::move(tensor.values);
  }
  if (values.empty()) {
    return bad(
        "has no tensor of bisenetv2's backbone, such as "
        "detail.S1.0.conv.weight" +
        (tensors->empty() ? std::string()
                          : "; its first is " + tensors->front().name));
  }
  for (const auto& [name, tensor] : wanted) {
    if (branches.contains(branch(name)) && !values.contains(name)) {
      return bad("tensor " + name + " is missing");
    }
  }
  return values;
}

void Initialize(const BiSeNetV2::Tensor& tensor, Random random,
                std::span<float> values) {
  switch (tensor.kind) {
    case Kind::kConvolution: {
      // Kaiming, normal, by fan-out.
      const double deviation = std::sqrt(
          2.0 / static_cast<double>(tensor.shape[0] * tensor.shape[2] *
                                    tensor.shape[3]));
      for (float& v : values) {
        v = static_cast<float>(deviation * random.Normal());
      }
      return;
    }
    case Kind::kOnes:
    case Kind::kVariance:
      std::fill(values.begin(), values.end(), 1.0f);
      return;
    case Kind::kZeros:
    case Kind::kMean:
      std::fill(values.begin(), values.end(), 0.0f);
      return;
  }
}

}  // namespace

Result<Model> MakeBiSeNetV2(const ModelSettings& settings, const Data& data) {
  const auto refused = [&](const std::string& why) {
    return Error{ErrorCode::kBadValue,
                 settings.name + " cannot learn " + data.name + ": " + why};
  };
  if (data.input != Input::kImages || data.target != Target::kPixelClasses ||
      data.shape[2] != 3) {
    return refused("it takes images in colour with a class for every pixel");
  }
  for (const int64_t side : {data.shape[0], data.shape[1]}) {
    if (side > 0 && side % BiSeNetV2::kStep == 0) continue;
    return refused("the sides of its images must be multiples of " +
                   std::to_string(BiSeNetV2::kStep) + ", not " +
                   std::to_string(side));
  }
  const Result<LossKind> loss =
      ChooseLoss(settings.loss, LossKind::kBackCe, data);
  if (!loss) return loss.error();
  const Result<const TorchModule*> torch = LoadTorchModule();
  if (!torch) return torch.error();
  const BiSeNetV2 network = DefineBiSeNetV2(data.classes, data.mean, data.std);
  TensorTable table;
  for (const auto& tensor : network.tensors) table[tensor.name] = tensor;
  Values backbone;
  if (!settings.backbone.empty()) {
    Result<Values> read = ReadBackbone(**torch, settings.backbone, table);
    if (!read) return read.error();
    backbone = std::move(*read);
  }
  Result<std::string> contents = MakeContents(network);
  if (!contents) return contents.error();

  ScriptSpec spec;
  spec.name = settings.name;
  spec.contents = std::move(*contents);
  spec.loss = *loss;
  spec.threads = settings.threads;
  // For SGD a larger gradient is the same as a larger learning rate; methods
  // know but one of the latter.
  spec.gradient_scale = [factor = static_cast<float>(settings.head_lr)](
                            const std::string& tensor) {
    return BiSeNetV2::InHead(tensor) ? factor : 1.0f;
  };
  Result<Model> model = (*torch)->make_script_model(spec, data);
  if (!model) return model.error();
  model->initialize = [layout = model->layout, table = std::move(table),
                       backbone = std::move(backbone)](uint64_t seed,
                                                       std::span<float> coded,
                                                       std::span<float> plain) {
    uint32_t index = 0;
    for (const TensorLayout& tensor : layout.tensors) {
      std::span<float>& rest = tensor.coded ? coded : plain;
      const std::span<float> values = rest.first(tensor.size());
      rest = rest.subspan(tensor.size());
      const auto trained = backbone.find(tensor.name);
      if (trained != backbone.end()) {
        std::ranges::copy(trained->second, values.begin());
      } else {
        Initialize(table.at(tensor.name), Random({seed, Purpose::kInit, index}),
                   values);
      }
      ++index;
    }
  };
  return model;
}

}  // namespace fedmrn::train
