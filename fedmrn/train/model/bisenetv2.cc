#include "fedmrn/train/model/bisenetv2.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "fedmrn/train/model/torchscript.h"

namespace fedmrn::train {
namespace {

// A value in the source, a variable's name.
using Value = std::string;

// Writes forward() and, on the way, the list of its tensors: each layer stands
// in one place.
class Writer {
 public:
  // All convolutions are padded to keep the size, but for the stride, and have
  // no bias.
  Value Conv(const Value& x, const std::string& name, int64_t in, int64_t out,
             int64_t size, int64_t stride = 1, int64_t groups = 1) {
    const std::string weight =
        Add(name + ".weight", {out, in / groups, size, size},
            BiSeNetV2::Kind::kConvolution);
    return Let(
        "torch.conv2d({0}, {1}, None, [{2}, {2}], [{3}, {3}], [1, 1], {4})", x,
        weight, stride, size / 2, groups);
  }
  Value Depthwise(const Value& x, const std::string& name, int64_t in,
                  int64_t out, int64_t stride = 1) {
    return Conv(x, name, in, out, 3, stride, in);
  }
  Value Norm(const Value& x, const std::string& name, int64_t channels,
             BiSeNetV2::Kind gamma = BiSeNetV2::Kind::kOnes) {
    using Kind = BiSeNetV2::Kind;
    const std::string weight = Add(name + ".weight", {channels}, gamma);
    const std::string bias = Add(name + ".bias", {channels}, Kind::kZeros);
    const std::string mean =
        Add(name + ".running_mean", {channels}, Kind::kMean);
    const std::string variance =
        Add(name + ".running_var", {channels}, Kind::kVariance);
    return Let("self.norm({}, {}, {}, {}, {})", x, weight, bias, mean,
               variance);
  }
  Value Relu(const Value& x) { return Let("torch.relu({})", x); }
  Value ConvNormRelu(const Value& x, const std::string& name, int64_t in,
                     int64_t out, int64_t size, int64_t stride = 1) {
    return Relu(Norm(Conv(x, name + ".conv", in, out, size, stride),
                     name + ".bn", out));
  }
  Value Dropout(const Value& x) {
    return Let("torch.dropout({}, 0.1, self.training)", x);
  }
  Value Nearest(const Value& x, int64_t factor) {
    return Let("torch.upsample_nearest2d({0}, None, [{1}.0, {1}.0])", x,
               factor);
  }
  Value Bilinear(const Value& x, int64_t factor) {
    return Let("torch.upsample_bilinear2d({0}, None, False, [{1}.0, {1}.0])", x,
               factor);
  }

  template <typename... Arguments>
  Value Let(fmt::format_string<Arguments...> expression,
            Arguments&&... arguments) {
    const Value value = fmt::format("v{}", ++values_);
    Line(value + " = " +
         fmt::format(expression, std::forward<Arguments>(arguments)...));
    return value;
  }
  void Line(const std::string& line) { forward += indent + line + "\n"; }

  std::vector<BiSeNetV2::Tensor> tensors;
  std::string forward, indent = "  ";

 private:
  // Returns the expression for it; "0" is no name in TorchScript.
  std::string Add(const std::string& name, std::vector<int64_t> shape,
                  BiSeNetV2::Kind kind) {
    tensors.push_back({name, std::move(shape), kind});
    std::string expression = "self";
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find('.', begin), name.size());
      const std::string part = name.substr(begin, end - begin);
      expression = std::isdigit(static_cast<unsigned char>(part[0])) != 0
                       ? fmt::format("getattr({}, \"{}\")", expression, part)
                       : expression + "." + part;
      begin = end + 1;
    }
    return expression;
  }

  int values_ = 0;
};

Value Detail(Writer& w, Value x) {
  x = w.ConvNormRelu(x, "detail.S1.0", 3, 64, 3, 2);
  x = w.ConvNormRelu(x, "detail.S1.1", 64, 64, 3);
  x = w.ConvNormRelu(x, "detail.S2.0", 64, 64, 3, 2);
  x = w.ConvNormRelu(x, "detail.S2.1", 64, 64, 3);
  x = w.ConvNormRelu(x, "detail.S2.2", 64, 64, 3);
  x = w.ConvNormRelu(x, "detail.S3.0", 64, 128, 3, 2);
  x = w.ConvNormRelu(x, "detail.S3.1", 128, 128, 3);
  return w.ConvNormRelu(x, "detail.S3.2", 128, 128, 3);
}

Value Stem(Writer& w, Value x, const std::string& name) {
  x = w.ConvNormRelu(x, name + ".conv", 3, 16, 3, 2);
  Value left = w.ConvNormRelu(x, name + ".left.0", 16, 8, 1);
  left = w.ConvNormRelu(left, name + ".left.1", 8, 16, 3, 2);
  const Value right = w.Let("torch.max_pool2d({}, [3, 3], [2, 2], [1, 1])", x);
  return w.ConvNormRelu(w.Let("torch.cat([{}, {}], 1)", left, right),
                        name + ".fuse", 32, 16, 3);
}

constexpr int64_t kExpansion = 6;

// Gather-and-expansion layers. They begin as their shortcut: the last scale of
// the main path is 0 at first.
Value GatherExpand(Writer& w, const Value& in, const std::string& name,
                   int64_t channels) {
  const int64_t wide = kExpansion * channels;
  Value x = w.ConvNormRelu(in, name + ".conv1", channels, channels, 3);
  x = w.Depthwise(x, name + ".dwconv.0", channels, wide);
  x = w.Relu(w.Norm(x, name + ".dwconv.1", wide));
  x = w.Conv(x, name + ".conv2.0", wide, channels, 1);
  x = w.Norm(x, name + ".conv2.1", channels, BiSeNetV2::Kind::kZeros);
  return w.Relu(w.Let("{} + {}", x, in));
}

Value GatherExpandDown(Writer& w, const Value& in, const std::string& name,
                       int64_t channels, int64_t out) {
  const int64_t wide = kExpansion * channels;
  Value x = w.ConvNormRelu(in, name + ".conv1", channels, channels, 3);
  x = w.Depthwise(x, name + ".dwconv1.0", channels, wide, 2);
  x = w.Norm(x, name + ".dwconv1.1", wide);
  x = w.Depthwise(x, name + ".dwconv2.0", wide, wide);
  x = w.Relu(w.Norm(x, name + ".dwconv2.1", wide));
  x = w.Conv(x, name + ".conv2.0", wide, out, 1);
  x = w.Norm(x, name + ".conv2.1", out, BiSeNetV2::Kind::kZeros);
  Value shortcut = w.Depthwise(in, name + ".shortcut.0", channels, channels, 2);
  shortcut = w.Norm(shortcut, name + ".shortcut.1", channels);
  shortcut = w.Conv(shortcut, name + ".shortcut.2", channels, out, 1);
  shortcut = w.Norm(shortcut, name + ".shortcut.3", out);
  return w.Relu(w.Let("{} + {}", x, shortcut));
}

// What the heads look at.
struct Segment {
  Value at4, at8, at16, at32;  // by how much they are smaller than the image
  Value context;
};

Segment SegmentBranch(Writer& w, const Value& x) {
  Segment s;
  s.at4 = Stem(w, x, "segment.S1S2");
  s.at8 = GatherExpandDown(w, s.at4, "segment.S3.0", 16, 32);
  s.at8 = GatherExpand(w, s.at8, "segment.S3.1", 32);
  s.at16 = GatherExpandDown(w, s.at8, "segment.S4.0", 32, 64);
  s.at16 = GatherExpand(w, s.at16, "segment.S4.1", 64);
  s.at32 = GatherExpandDown(w, s.at16, "segment.S5_4.0", 64, 128);
  for (const char* const name :
       {"segment.S5_4.1", "segment.S5_4.2", "segment.S5_4.3"}) {
    s.at32 = GatherExpand(w, s.at32, name, 128);
  }
  Value mean = w.Let("{}.mean([2, 3], True)", s.at32);
  mean = w.Norm(mean, "segment.S5_5.bn", 128);
  mean = w.ConvNormRelu(mean, "segment.S5_5.conv_gap", 128, 128, 1);
  s.context = w.ConvNormRelu(w.Let("{} + {}", mean, s.at32),
                             "segment.S5_5.conv_last", 128, 128, 3);
  return s;
}

// Bilateral guided aggregation of the two branches.
Value Aggregate(Writer& w, const Value& detail, const Value& context) {
  Value left1 = w.Depthwise(detail, "bga.left1.0", 128, 128);
  left1 = w.Norm(left1, "bga.left1.1", 128);
  left1 = w.Conv(left1, "bga.left1.2", 128, 128, 1);
  Value left2 = w.Conv(detail, "bga.left2.0", 128, 128, 3, 2);
  left2 = w.Norm(left2, "bga.left2.1", 128);
  left2 = w.Let("torch.avg_pool2d({}, [3, 3], [2, 2], [1, 1])", left2);
  Value right1 = w.Conv(context, "bga.right1.0", 128, 128, 3);
  right1 = w.Nearest(w.Norm(right1, "bga.right1.1", 128), 4);
  Value right2 = w.Depthwise(context, "bga.right2.0", 128, 128);
  right2 = w.Norm(right2, "bga.right2.1", 128);
  right2 = w.Conv(right2, "bga.right2.2", 128, 128, 1);
  const Value left = w.Let("{} * torch.sigmoid({})", left1, right1);
  const Value right =
      w.Nearest(w.Let("{} * torch.sigmoid({})", left2, right2), 4);
  Value x = w.Conv(w.Let("{} + {}", left, right), "bga.conv.0", 128, 128, 3);
  return w.Relu(w.Norm(x, "bga.conv.1", 128));
}

Value Head(Writer& w, Value x, int64_t classes) {
  x = w.Dropout(w.ConvNormRelu(x, "head.conv", 128, 1024, 3));
  x = w.Conv(x, "head.conv_out.1", 1024, classes, 1);
  return w.Bilinear(x, 8);
}

// `smaller`: by how much x is smaller than the image.
Value AuxiliaryHead(Writer& w, Value x, const std::string& name,
                    int64_t channels, int64_t smaller, int64_t classes) {
  const int64_t wide = smaller * smaller;
  x = w.Dropout(w.ConvNormRelu(x, name + ".conv", channels, 128, 3));
  x = w.ConvNormRelu(w.Nearest(x, 2), name + ".conv_out.0.1", 128, wide, 3);
  x = w.Conv(x, name + ".conv_out.1", wide, classes, 1);
  return w.Bilinear(x, smaller / 2);
}

// FedSeg's, part of the published model. No loss looks at it, so it learns
// nothing, and LibTorch leaves it out of its work.
void ProjectionHead(Writer& w, Value x) {
  x = w.Conv(x, "proj_head.proj.0", 128, 128, 1);
  x = w.Relu(w.Norm(x, "proj_head.proj.1", 128));
  x = w.Conv(x, "proj_head.proj.3", 128, 256, 1);
  w.Let("{0} / torch.clamp(torch.norm({0}, 2, [1], True), 1e-12)", x);
}

std::string_view TopOf(std::string_view name) {
  return name.substr(0, name.find('.'));
}

}  // namespace

bool BiSeNetV2::InBackbone(const std::string& name) {
  const std::string_view top = TopOf(name);
  return top == "detail" || top == "segment" || top == "bga";
}

bool BiSeNetV2::InHead(const std::string& name) {
  const std::string_view top = TopOf(name);
  return top.find("head") != top.npos || top.find("aux") != top.npos;
}

BiSeNetV2 DefineBiSeNetV2(uint32_t classes, std::span<const float> mean,
                          std::span<const float> std) {
  Writer w;
  const Value detail = Detail(w, "x");
  const Segment segment = SegmentBranch(w, "x");
  const Value both = Aggregate(w, detail, segment.context);
  const Value main = Head(w, both, classes);
  w.Line("if not self.training:");
  w.Line("  return " + main);
  const Value outputs[] = {
      main, AuxiliaryHead(w, segment.at4, "aux2", 16, 4, classes),
      AuxiliaryHead(w, segment.at8, "aux3", 32, 8, classes),
      AuxiliaryHead(w, segment.at16, "aux4", 64, 16, classes),
      AuxiliaryHead(w, segment.at32, "aux5_4", 128, 32, classes)};
  ProjectionHead(w, both);
  w.Line(fmt::format("return ({})", fmt::join(outputs, ", ")));

  BiSeNetV2 network;
  network.tensors = std::move(w.tensors);
  // A single value has no variance: a batch of one image, averaged as a whole,
  // is normalised as in evaluation.
  network.source =
      "def norm(self, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, "
      "variance: Tensor) -> Tensor:\n"
      "  several = x.size(0) * x.size(2) * x.size(3) > 1\n"
      "  return torch.batch_norm(x, weight, bias, mean, variance, "
      "self.training and several, 0.1, 1e-5, True)\n"
      "def forward(self, x: Tensor) -> Any:\n" +
      w.forward + NormaliseSource(mean, std);
  return network;
}

}  // namespace fedmrn::train
