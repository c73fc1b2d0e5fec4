#include "python/arguments.h"

#include "fedmrn/base/check.h"

namespace fedmrn::python {
namespace {

// An Error on its way to Python.
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

void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const CoreError& core) {
    const nb::object error = FrameErrorOf(core.error);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  }
}

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

constexpr std::pair<const char*, NoiseKind> kNoiseKinds[] = {
    {"none", NoiseKind::kNone},
    {"uniform", NoiseKind::kUniform},
    {"gaussian", NoiseKind::kGaussian},
    {"bernoulli", NoiseKind::kBernoulli}};

constexpr std::pair<const char*, PlainKind> kPlainKinds[] = {
    {"float32", PlainKind::kFloat32},
    {"float16", PlainKind::kFloat16},
    {"delta", PlainKind::kDelta}};

constexpr std::pair<const char*, MaskKind> kMaskKinds[] = {
    {"binary", MaskKind::kBinary}, {"signed", MaskKind::kSigned}};

// `what` says which argument it is and which names there are.
template <typename Kinds>
auto KindNamed(const Kinds& kinds, const std::string& name, const char* what) {
  for (const auto& [known, kind] : kinds) {
    if (name == known) return kind;
  }
  BadValue(std::string(what) + ", not '" + name + "'");
}

template <typename Kinds, typename Kind>
const char* NameAmong(const Kinds& kinds, Kind wanted) {
  for (const auto& [name, kind] : kinds) {
    if (kind == wanted) return name;
  }
  FEDMRN_CHECK(false);
}

}  // namespace

nb::object FrameErrorOf(const Error& error) {
  const nb::object offset = error.offset == Error::kNoOffset
                                ? nb::none()
                                : nb::object(nb::int_(error.offset));
  return nb::module_::import_("fedmrn._error")
      .attr("FrameError")(error.message, NameOf(error.code), offset);
}

void ThrowFrameError(const Error& error) { throw CoreError{error}; }

void RegisterFrameError() { nb::register_exception_translator(Translate); }

void BadType(const std::string& message) {
  throw nb::type_error(message.c_str());
}

void BadValue(const std::string& message) {
  throw nb::value_error(message.c_str());
}

Floats::Floats(const char* name, nb::handle object, Access access,
               size_t size) {
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

std::optional<Floats> OptionalFloats(const char* name, nb::handle object,
                                     Floats::Access access, size_t size) {
  if (object.is_none()) return std::nullopt;
  return Floats(name, object, access, size);
}

NoiseKind NoiseKindNamed(const std::string& name) {
  return KindNamed(kNoiseKinds, name,
                   "noise must be 'uniform', 'gaussian' or 'bernoulli'");
}

const char* NameOf(NoiseKind kind) { return NameAmong(kNoiseKinds, kind); }

PlainKind PlainKindNamed(const std::string& name) {
  return KindNamed(kPlainKinds, name,
                   "plain_as must be 'float32', 'float16' or 'delta'");
}

const char* NameOf(PlainKind kind) { return NameAmong(kPlainKinds, kind); }

MaskKind MaskNamed(const std::string& name) {
  return KindNamed(kMaskKinds, name, "mask must be 'binary' or 'signed'");
}

const Codec& CodecNamed(const std::string& name) {
  if (const Codec* codec = FindCodec(name)) return *codec;
  std::string known;
  for (const Codec& codec : Codecs()) {
    known += (known.empty() ? "" : ", ") + std::string(codec.name);
  }
  BadValue("there is no codec '" + name + "'; there are " + known);
}

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

Noise SoundNoise(const std::string& kind, float magnitude, uint64_t seed,
                 const Bytes& magnitudes, std::optional<uint64_t> params) {
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

}  // namespace fedmrn::python
