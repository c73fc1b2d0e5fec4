// fedmrn._core: the core as Python sees it. Arrays are used where they are,
// never copied; what they must be is checked here, by name, so that a TypeError
// says which argument and why. Kernels run without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/layout.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/philox.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fedmrn {
namespace {

// Errors.

// An Error on its way to Python, where it is a fedmrn.FrameError.
struct CoreError {
  Error error;
};

const char* NameOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kTruncated:
      return "truncated";
    case ErrorCode::kBadFormat:
      return "bad-format";
    case ErrorCode::kBadChecksum:
      return "bad-checksum";
    case ErrorCode::kBadValue:
      return "bad-value";
    case ErrorCode::kNotFinite:
      return "not-finite";
    case ErrorCode::kForeign:
      return "foreign";
    case ErrorCode::kStale:
      return "stale";
    case ErrorCode::kDuplicate:
      return "duplicate";
    case ErrorCode::kFull:
      return "full";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kFailed:
      return "failed";
    case ErrorCode::kStopped:
      return "stopped";
  }
  return "failed";
}

nb::object FrameErrorOf(const Error& error) {
  const nb::object offset = error.offset == Error::kNoOffset
                                ? nb::none()
                                : nb::object(nb::int_(error.offset));
  return nb::module_::import_("fedmrn._error")
      .attr("FrameError")(error.message, NameOf(error.code), offset);
}

void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const CoreError& core) {
    const nb::object error = FrameErrorOf(core.error);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  }
}

template <typename T>
T Must(Result<T> result) {
  if (!result) throw CoreError{result.error()};
  return std::move(result).value();
}

[[noreturn]] void BadType(const std::string& message) {
  throw nb::type_error(message.c_str());
}
[[noreturn]] void BadValue(const std::string& message) {
  throw nb::value_error(message.c_str());
}

// Arguments.

std::string DtypeName(nb::dlpack::dtype dtype) {
  const char* kind = "unknown";
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Int:
      kind = "int";
      break;
    case nb::dlpack::dtype_code::UInt:
      kind = "uint";
      break;
    case nb::dlpack::dtype_code::Float:
      kind = "float";
      break;
    case nb::dlpack::dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case nb::dlpack::dtype_code::Complex:
      kind = "complex";
      break;
    case nb::dlpack::dtype_code::Bool:
      return "bool";
    default:
      break;
  }
  return kind + std::to_string(dtype.bits);
}

// An array that somebody else owns, as a flat vector of floats. While it lives
// the memory does.
class Floats {
 public:
  enum Access { kRead, kWrite };
  static constexpr size_t kAnySize = std::numeric_limits<size_t>::max();

  Floats(const char* name, nb::handle object, Access access,
         size_t size = kAnySize) {
    const std::string who = std::string(name) + ": ";
    if (!nb::try_cast(object, array_, false)) {
      BadType(who + "must be a NumPy array or a tensor, not " +
              nb::type_name(object.type()).c_str());
    }
    if (array_.device_type() != nb::device::cpu::value) {
      BadType(who + "must be in the CPU's memory");
    }
    if (array_.dtype() != nb::dtype<float>()) {
      BadType(who + "has dtype " + DtypeName(array_.dtype()) +
              ", must have float32");
    }
    if (array_.ndim() != 1) {
      BadType(who + "has " + std::to_string(array_.ndim()) +
              " dimensions, must have 1");
    }
    if (array_.size() > 1 && array_.stride(0) != 1) {
      BadType(who + "is not contiguous: it has a stride of " +
              std::to_string(array_.stride(0)) + " values");
    }
    if (size != kAnySize && array_.size() != size) {
      BadType(who + "has " + std::to_string(array_.size()) +
              " values, must have " + std::to_string(size));
    }
    nb::ndarray<> writable;
    if (access == kWrite && !nb::try_cast(object, writable, false)) {
      BadType(who + "is read-only memory");
    }
  }

  std::span<const float> values() const {
    return {static_cast<const float*>(array_.data()), array_.size()};
  }
  std::span<float> writable() const {
    return {const_cast<float*>(static_cast<const float*>(array_.data())),
            array_.size()};
  }

 private:
  nb::ndarray<nb::ro> array_;
};

// One that may be missing.
std::optional<Floats> OptionalFloats(const char* name, nb::handle object,
                                     Floats::Access access,
                                     size_t size = Floats::kAnySize) {
  if (object.is_none()) return std::nullopt;
  return Floats(name, object, access, size);
}

template <typename T>
using NumpyVector = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Takes the vector; NumPy frees it.
template <typename T>
NumpyVector<T> ToNumpy(std::vector<T> values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  std::vector<T>* const data = owned.get();
  const nb::capsule owner(owned.release(), [](void* p) noexcept {
    delete static_cast<std::vector<T>*>(p);
  });
  return NumpyVector<T>(data->data(), {data->size()}, owner);
}

constexpr std::pair<const char*, NoiseKind> kNoiseKinds[] = {
    {"none", NoiseKind::kNone},
    {"uniform", NoiseKind::kUniform},
    {"gaussian", NoiseKind::kGaussian},
    {"bernoulli", NoiseKind::kBernoulli}};

NoiseKind NoiseKindNamed(const std::string& name) {
  for (const auto& [known, kind] : kNoiseKinds) {
    if (name == known) return kind;
  }
  BadValue("noise must be 'uniform', 'gaussian' or 'bernoulli', not '" + name +
           "'");
}

const char* NameOf(NoiseKind kind) {
  for (const auto& [name, known] : kNoiseKinds) {
    if (kind == known) return name;
  }
  return "none";
}

constexpr std::pair<const char*, PlainKind> kPlainKinds[] = {
    {"float32", PlainKind::kFloat32},
    {"float16", PlainKind::kFloat16},
    {"delta", PlainKind::kDelta}};

PlainKind PlainKindNamed(const std::string& name) {
  for (const auto& [known, kind] : kPlainKinds) {
    if (name == known) return kind;
  }
  BadValue("plain_as must be 'float32', 'float16' or 'delta', not '" + name +
           "'");
}

const char* NameOf(PlainKind kind) {
  for (const auto& [name, known] : kPlainKinds) {
    if (kind == known) return name;
  }
  return "float32";
}

const Codec& CodecNamed(const std::string& name) {
  if (const Codec* codec = FindCodec(name)) return *codec;
  std::string known;
  for (const Codec& codec : Codecs()) {
    known += (known.empty() ? "" : ", ") + std::string(codec.name);
  }
  BadValue("there is no codec '" + name + "'; there are " + known);
}

// A magnitude for all parameters, or one for each tensor: (length, magnitude).
using Pairs = std::vector<std::tuple<uint32_t, float>>;

// The bytes of a frame's magnitudes.
Bytes BytesOf(const Pairs& magnitudes) {
  std::vector<TensorMagnitude> tensors;
  for (const auto& [length, magnitude] : magnitudes) {
    tensors.push_back({length, magnitude});
  }
  return MagnitudeBytes(tensors);
}

Pairs PairsOf(const MagnitudesView& magnitudes) {
  Pairs pairs;
  for (size_t t = 0; t < magnitudes.size(); ++t) {
    pairs.emplace_back(magnitudes[t].length, magnitudes[t].magnitude);
  }
  return pairs;
}

// The noise points into `magnitudes`.
Noise SoundNoise(const std::string& kind, float magnitude, uint64_t seed,
                 const Bytes& magnitudes = {},
                 std::optional<uint64_t> params = {}) {
  const Noise noise{NoiseKindNamed(kind), magnitude, seed,
                    MagnitudesView(magnitudes)};
  if (noise.kind == NoiseKind::kNone) BadValue("noise must not be 'none'");
  if (!IsValid(noise)) BadValue("magnitude must be 2^-64 to 2^10");
  if (params && !magnitudes.empty() && noise.magnitudes.params() != *params) {
    BadValue("the tensors with magnitudes have " +
             std::to_string(noise.magnitudes.params()) + " values, not " +
             std::to_string(*params));
  }
  return noise;
}

MaskKind MaskNamed(const std::string& name) {
  if (name == "binary") return MaskKind::kBinary;
  if (name == "signed") return MaskKind::kSigned;
  BadValue("mask must be 'binary' or 'signed', not '" + name + "'");
}

// Frames.

ByteView BytesOf(const nb::bytes& bytes) {
  return {static_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

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

// The server's sum. The core's is not thread-safe, and calls here run without
// the GIL, so they take turns.
class LockedAggregator {
  // First, since its type is deduced.
  template <typename Fn>
  auto Unlocked(const Fn& work) {
    nb::gil_scoped_release free;
    const std::lock_guard lock(mutex_);
    return work();
  }

 public:
  explicit LockedAggregator(const RoundSpec& spec)
      : aggregator_(Must(Aggregator::Create(spec))), spec_(spec) {}

  void Add(const nb::bytes& raw, int threads) {
    const ByteView bytes = BytesOf(raw);
    Must(Unlocked([&] { return aggregator_.Add(bytes, threads); }));
  }

  nb::list AddAll(const std::vector<nb::bytes>& frames, int threads) {
    std::vector<ByteView> views;
    for (const nb::bytes& raw : frames) views.push_back(BytesOf(raw));
    const std::vector<Status> verdicts =
        Unlocked([&] { return aggregator_.AddAll(views, threads); });
    nb::list errors;
    for (const Status& verdict : verdicts) {
      errors.append(verdict ? nb::none() : FrameErrorOf(verdict.error()));
    }
    return errors;
  }

  void Finish(nb::object weights, nb::object plain, int threads) {
    const Floats to("weights", weights, Floats::kWrite, spec_.params);
    std::span<float> plain_to;
    std::optional<Floats> plain_floats;
    if (spec_.plain_count > 0) {
      plain_floats.emplace("plain", plain, Floats::kWrite, spec_.plain_count);
      plain_to = plain_floats->writable();
    }
    Must(Unlocked(
        [&] { return aggregator_.Finish(to.writable(), plain_to, threads); }));
  }

  size_t clients() {
    return Unlocked([&] { return aggregator_.clients(); });
  }
  uint64_t total_weight() {
    return Unlocked([&] { return aggregator_.total_weight(); });
  }
  Pairs NextMagnitudes(double target) {
    if (!(target > 0)) BadValue("target must be above 0");
    const MagnitudesView now(spec_.magnitudes);
    const Bytes next = Unlocked([&] {
      return aggregator_.clients() == 0
                 ? spec_.magnitudes
                 : SteerMagnitudes(now, aggregator_.beyond(),
                                   aggregator_.clients(), target);
    });
    return PairsOf(MagnitudesView(next));
  }
  uint64_t params() const { return spec_.params; }
  uint32_t plain_count() const { return spec_.plain_count; }
  uint64_t fingerprint() const { return spec_.fingerprint; }

 private:
  std::mutex mutex_;
  Aggregator aggregator_;
  RoundSpec spec_;
};

// Masks.

void Step(nb::object weights, nb::object gradient, nb::object update,
          nb::object effective, const std::string& mask,
          const std::string& noise, float magnitude, const Pairs& magnitudes,
          uint64_t seed, uint64_t draw_seed, uint32_t step,
          uint32_t total_steps, float learning_rate, bool stochastic,
          bool progressive) {
  const Floats w("weights", weights, Floats::kRead);
  const size_t size = w.values().size();
  const auto g = OptionalFloats("gradient", gradient, Floats::kRead, size);
  const Floats u("update", update, Floats::kWrite, size);
  const Floats to("effective", effective, Floats::kWrite, size);
  const Bytes of_tensors = BytesOf(magnitudes);
  const Masking masking{MaskNamed(mask), stochastic, progressive,
                        SoundNoise(noise, magnitude, seed, of_tensors, size),
                        draw_seed};
  if (step < 1 || step > total_steps) {
    BadValue("step must be 1 to total_steps");
  }
  nb::gil_scoped_release free;
  MaskedStep(masking, {step, total_steps, learning_rate}, w.values(),
             g ? g->values() : std::span<const float>(), u.writable(),
             to.writable());
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

NB_MODULE(_core, module) {
  nb::register_exception_translator(Translate);

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

  module.def(
      "noise",
      [](const std::string& kind, float magnitude, uint64_t seed,
         uint64_t first, nb::object out) {
        const Noise noise = SoundNoise(kind, magnitude, seed);
        const Floats values("out", out, Floats::kWrite);
        nb::gil_scoped_release free;
        NoiseValues(noise, first, values.writable());
      },
      "kind"_a, "magnitude"_a, "seed"_a, "first"_a, "out"_a);
  module.def(
      "noise_unit",
      [](const std::string& kind, float magnitude) {
        const Noise noise = SoundNoise(kind, magnitude, 0);
        return NoiseUnit(noise.kind, noise.magnitude);
      },
      "kind"_a, "magnitude"_a);
  module.def("gaussian_odds", [] {
    return ToNumpy(
        std::vector<int16_t>(GaussianOdds(), GaussianOdds() + 65536));
  });
  module.def("masked_step", Step, "weights"_a, "gradient"_a.none(), "update"_a,
             "effective"_a, nb::kw_only(), "mask"_a, "noise"_a, "magnitude"_a,
             "magnitudes"_a = Pairs(), "seed"_a, "draw_seed"_a, "step"_a,
             "total_steps"_a, "learning_rate"_a, "stochastic"_a,
             "progressive"_a);
  module.def(
      "client_seeds",
      [](uint64_t run_seed, uint32_t round, uint64_t client) {
        std::array<uint32_t, 4> words;
        PhiloxWords({run_seed, Purpose::kClientSeed, round}, client, words);
        return std::tuple(ClientSeed(run_seed, round, client),
                          words[2] | uint64_t{words[3]} << 32);
      },
      "run_seed"_a, "round"_a, "client"_a);

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

  nb::class_<LockedAggregator>(module, "Aggregator")
      .def(
          "__init__",
          [](LockedAggregator* self, uint64_t params, uint32_t plain_count,
             uint64_t fingerprint, const std::string& codec,
             const std::string& noise, float magnitude, const Pairs& magnitudes,
             uint64_t run, uint32_t round, std::optional<uint64_t> run_seed,
             uint32_t examples_per_weight, uint32_t max_examples,
             float max_abs_value, nb::object plain_reference,
             const std::vector<std::tuple<uint64_t, uint64_t>>& variances) {
            RoundSpec spec;
            spec.run = run;
            spec.round = round;
            spec.run_seed = run_seed;
            spec.fingerprint = fingerprint;
            spec.params = params;
            spec.plain_count = plain_count;
            spec.codec = CodecNamed(codec).id;
            spec.noise = NoiseKindNamed(noise);
            spec.magnitude = magnitude;
            spec.magnitudes = BytesOf(magnitudes);
            spec.examples_per_weight = examples_per_weight;
            spec.max_examples = max_examples;
            spec.max_abs_value = max_abs_value;
            if (const auto reference =
                    OptionalFloats("plain_reference", plain_reference,
                                   Floats::kRead, plain_count)) {
              const std::span<const float> values = reference->values();
              spec.plain_reference.assign(values.begin(), values.end());
            }
            for (const auto& [first, count] : variances) {
              spec.variances.push_back({first, count});
            }
            new (self) LockedAggregator(spec);
          },
          nb::kw_only(), "params"_a, "plain_count"_a, "fingerprint"_a,
          "codec"_a, "noise"_a, "magnitude"_a, "magnitudes"_a, "run"_a,
          "round"_a, "run_seed"_a.none(), "examples_per_weight"_a,
          "max_examples"_a, "max_abs_value"_a, "plain_reference"_a.none(),
          "variances"_a)
      .def("add", &LockedAggregator::Add, "frame"_a, "threads"_a)
      .def("add_all", &LockedAggregator::AddAll, "frames"_a, "threads"_a)
      .def("finish", &LockedAggregator::Finish, "weights"_a, "plain"_a.none(),
           "threads"_a)
      .def("next_magnitudes", &LockedAggregator::NextMagnitudes, "target"_a)
      .def_prop_ro("clients", &LockedAggregator::clients)
      .def_prop_ro("total_weight", &LockedAggregator::total_weight)
      .def_prop_ro("params", &LockedAggregator::params)
      .def_prop_ro("plain_count", &LockedAggregator::plain_count)
      .def_prop_ro("fingerprint", &LockedAggregator::fingerprint);
}

}  // namespace fedmrn
