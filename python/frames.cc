// Frames, and the layout of the models that they carry.
#include "fedmrn/core/frame.h"
#include "fedmrn/core/layout.h"
#include "python/arguments.h"
#include "python/bindings.h"

namespace fedmrn::python {
namespace {

// A frame that has passed every check, with the bytes it points into.
struct Frame {
  nb::bytes raw;
  Bytes unpacked;
  FrameView view;
};

// Python owns it.
Frame* Parse(nb::bytes raw, uint64_t max_params) {
  auto frame = std::make_unique<Frame>();
  const ByteView bytes = BytesOf(raw);
  Result<FrameView> view = [&] {
    nb::gil_scoped_release free;
    return ParseFrame(bytes, {max_params, &frame->unpacked});
  }();
  frame->view = Must(std::move(view));
  frame->raw = std::move(raw);
  return frame.release();
}

nb::object Decode(const Frame& frame, nb::object out) {
  if (out.is_none()) {
    std::vector<float> values;
    {
      nb::gil_scoped_release free;
      values.resize(frame.view.params);
      DecodeUpdate(frame.view, values);
    }
    return nb::cast(ToNumpy(std::move(values)));
  }
  const Floats values("out", out, Floats::kWrite, frame.view.params);
  {
    nb::gil_scoped_release free;
    DecodeUpdate(frame.view, values.writable());
  }
  return out;
}

NumpyVector<float> PlainOf(const Frame& frame, nb::object reference) {
  const auto from = OptionalFloats("reference", reference, Floats::kRead,
                                   frame.view.plain_count);
  std::vector<float> values(frame.view.plain_count);
  frame.view.CopyPlain(values,
                       from ? from->values() : std::span<const float>());
  return ToNumpy(std::move(values));
}

nb::bytes Encode(nb::object update, nb::object plain, const std::string& codec,
                 bool broadcast, const std::string& plain_as,
                 nb::object plain_reference,
                 std::vector<uint32_t> plain_segments, uint64_t run,
                 uint32_t round, uint64_t client, uint32_t examples,
                 uint64_t fingerprint, const std::string& noise,
                 float magnitude, const Pairs& magnitudes, uint64_t seed,
                 uint64_t draw_seed, std::vector<uint32_t> segments,
                 bool entropy, bool stochastic, float scale, double keep,
                 float clip, bool unbiased, int bits) {
  const Floats values("update", update, Floats::kRead);
  const auto plain_values = OptionalFloats("plain", plain, Floats::kRead);
  const auto reference =
      OptionalFloats("plain_reference", plain_reference, Floats::kRead,
                     plain_values ? plain_values->values().size() : 0);
  FrameHeader header;
  header.codec = CodecNamed(codec).id;
  header.broadcast = broadcast;
  header.plain_kind = PlainKindNamed(plain_as);
  header.run = run;
  header.round = round;
  header.client = client;
  header.examples = examples;
  header.fingerprint = fingerprint;
  const Bytes of_tensors = BytesOf(magnitudes);
  header.noise = {NoiseKindNamed(noise), magnitude, seed,
                  MagnitudesView(of_tensors)};
  EncodeOptions options;
  options.draw_seed = draw_seed;
  options.segments = segments;
  options.entropy = entropy;
  options.stochastic = stochastic;
  options.scale = scale;
  options.keep = keep;
  options.clip = clip;
  options.unbiased = unbiased;
  options.bits = bits;
  if (reference) options.plain_reference = reference->values();
  options.plain_segments = plain_segments;
  Result<Bytes> frame = [&] {
    nb::gil_scoped_release free;
    return EncodeFrame(
        header, options, values.values(),
        plain_values ? plain_values->values() : std::span<const float>());
  }();
  const Bytes bytes = Must(std::move(frame));
  return nb::bytes(bytes.data(), bytes.size());
}

uint64_t LayoutSize(const std::vector<uint32_t>& shape) {
  uint64_t size = 1;
  for (const uint32_t extent : shape) {
    size *= extent;
    if (size > kMaxParams) BadValue("a tensor exceeds 2^32 values");
  }
  return size;
}

ModelLayout MakeLayout(
    const std::vector<std::tuple<std::string, std::vector<uint32_t>, bool>>&
        tensors) {
  ModelLayout layout;
  for (const auto& [name, shape, coded] : tensors) {
    if (LayoutSize(shape) == 0) BadValue("tensor " + name + " is empty");
    layout.tensors.push_back({name, shape, coded});
  }
  return layout;
}

}  // namespace

void BindFrames(nb::module_& module) {
  nb::class_<Frame>(module, "Frame")
      .def_prop_ro("version", [](const Frame& f) { return f.view.version; })
      .def_prop_ro("codec",
                   [](const Frame& f) {
                     return std::string(FindCodec(f.view.codec)->name);
                   })
      .def_prop_ro("broadcast", [](const Frame& f) { return f.view.broadcast; })
      .def_prop_ro("plain_as",
                   [](const Frame& f) { return NameOf(f.view.plain_kind); })
      .def_prop_ro("run", [](const Frame& f) { return f.view.run; })
      .def_prop_ro("round", [](const Frame& f) { return f.view.round; })
      .def_prop_ro("client", [](const Frame& f) { return f.view.client; })
      .def_prop_ro("examples", [](const Frame& f) { return f.view.examples; })
      .def_prop_ro("fingerprint",
                   [](const Frame& f) { return f.view.fingerprint; })
      .def_prop_ro("noise",
                   [](const Frame& f) { return NameOf(f.view.noise.kind); })
      .def_prop_ro("magnitude",
                   [](const Frame& f) { return f.view.noise.magnitude; })
      .def_prop_ro(
          "magnitudes",
          [](const Frame& f) { return PairsOf(f.view.noise.magnitudes); })
      .def_prop_ro("seed", [](const Frame& f) { return f.view.noise.seed; })
      .def_prop_ro("codec_param",
                   [](const Frame& f) { return f.view.codec_param; })
      .def_prop_ro("params", [](const Frame& f) { return f.view.params; })
      .def_prop_ro("plain_count",
                   [](const Frame& f) { return f.view.plain_count; })
      .def_prop_ro("payload_bytes",
                   [](const Frame& f) { return f.view.payload.size(); })
      .def("plain", PlainOf, "reference"_a = nb::none())
      .def("decode", Decode, "out"_a = nb::none())
      .def("__bytes__", [](const Frame& f) { return f.raw; })
      .def("__len__", [](const Frame& f) { return f.view.frame_bytes; });

  module.def("parse", Parse, "frame"_a, "max_params"_a = kMaxParams);
  module.def("encode", Encode, "update"_a, "plain"_a.none(), nb::kw_only(),
             "codec"_a, "broadcast"_a, "plain_as"_a, "plain_reference"_a.none(),
             "plain_segments"_a, "run"_a, "round"_a, "client"_a, "examples"_a,
             "fingerprint"_a, "noise"_a, "magnitude"_a, "magnitudes"_a,
             "seed"_a, "draw_seed"_a, "segments"_a, "entropy"_a, "stochastic"_a,
             "scale"_a, "keep"_a, "clip"_a, "unbiased"_a, "bits"_a);
  module.def("codecs", [] {
    nb::list rows;
    for (const Codec& codec : Codecs()) {
      rows.append(nb::make_tuple(
          static_cast<int>(codec.id), std::string(codec.name),
          std::string(codec.summary), codec.uses_noise, codec.uses_seed,
          codec.carries_models, codec.encodes_probabilities));
    }
    return rows;
  });
}

void BindLayout(nb::module_& module) {
  nb::class_<ModelLayout>(module, "Layout")
      .def(
          "__init__",
          [](ModelLayout* self,
             const std::vector<std::tuple<std::string, std::vector<uint32_t>,
                                          bool>>& tensors) {
            new (self) ModelLayout(MakeLayout(tensors));
          },
          "tensors"_a)
      .def_prop_ro("tensors",
                   [](const ModelLayout& layout) {
                     nb::list rows;
                     for (const TensorLayout& t : layout.tensors) {
                       rows.append(nb::make_tuple(
                           t.name, nb::tuple(nb::cast(t.shape)), t.coded));
                     }
                     return rows;
                   })
      .def_prop_ro("params", &ModelLayout::coded_params)
      .def_prop_ro("plain_count", &ModelLayout::plain_values)
      .def_prop_ro("segments", &ModelLayout::segments)
      .def_prop_ro("plain_segments", &ModelLayout::plain_segments)
      .def_prop_ro("variances",
                   [](const ModelLayout& layout) {
                     std::vector<std::tuple<uint64_t, uint64_t>> ranges;
                     for (const PlainRange& range : layout.variances()) {
                       ranges.emplace_back(range.first, range.count);
                     }
                     return ranges;
                   })
      .def_prop_ro("fingerprint", &ModelLayout::Fingerprint);
}

}  // namespace fedmrn::python
