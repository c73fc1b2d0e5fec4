#include "fedmrn/train/model/initial.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "fedmrn/train/model/script_model.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {
namespace {

using Values = std::map<std::string, std::vector<float>>;

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

Status StartFrom(const std::string& path, Model& model,
                 std::vector<std::string>& notes) {
  const auto bad = [&](const std::string& why) {
    return Error{ErrorCode::kBadValue, path + ": " + why};
  };
  const std::string contents = FEDMRN_TRY(ReadModelFile(path));
  const TorchModule* const torch = FEDMRN_TRY(LoadTorchModule());
  const auto read = [&] { return torch->read_tensors(path, contents); };
  FEDMRN_TRY(TryWithLibTorch(path, [&] { (void)read(); }));
  std::vector<NamedTensor> tensors = FEDMRN_TRY(read());
  Values values;
  std::vector<std::string> extra;
  for (NamedTensor& tensor : tensors) {
    const auto place = std::ranges::find(model.layout.tensors, tensor.name,
                                         &TensorLayout::name);
    if (place == model.layout.tensors.end()) {
      extra.push_back(tensor.name);
      continue;
    }
    const std::vector<int64_t> shape(place->shape.begin(), place->shape.end());
    if (tensor.shape != shape) {
      return bad("tensor " + tensor.name + " has the shape " +
                 ShapeText(tensor.shape) + "; the network needs " +
                 ShapeText(shape));
    }
    if (!std::ranges::all_of(tensor.values,
                             [](float v) { return std::isfinite(v); })) {
      return bad("tensor " + tensor.name + " has values that are not finite");
    }
    values[tensor.name] = std::move(tensor.values);
  }
  std::vector<std::string> taken, missing;
  for (const TensorLayout& tensor : model.layout.tensors) {
    (values.contains(tensor.name) ? taken : missing).push_back(tensor.name);
  }
  if (taken.empty()) {
    return bad("has no tensor of the network, which has " + Listed(missing) +
               (extra.empty() ? "" : "; the file has " + Listed(extra)));
  }
  notes.push_back("starts from " + path + ": took " + Listed(taken));
  if (!missing.empty()) {
    notes.push_back(path + " lacks, and so drawn anew: " + Listed(missing));
  }
  if (!extra.empty()) {
    notes.push_back(path + " has, and nobody needs: " + Listed(extra));
  }
  model.initialize = [layout = model.layout, values = std::move(values),
                      draw = std::move(model.initialize)](
                         uint64_t seed, std::span<float> coded,
                         std::span<float> plain) {
    draw(seed, coded, plain);
    for (const TensorLayout& tensor : layout.tensors) {
      std::span<float>& rest = tensor.coded ? coded : plain;
      const auto found = values.find(tensor.name);
      if (found != values.end()) {
        std::ranges::copy(found->second, rest.begin());
      }
      rest = rest.subspan(tensor.size());
    }
  };
  return Ok();
}

}  // namespace fedmrn::train
