// What Python hands over and gets back, for all bindings: errors, arrays,
// names. Arrays are used where they are, never copied; what they must be is
// checked here, by name, so that a TypeError says which argument and why.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/magnitude.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"

namespace fedmrn::python {

namespace nb = nanobind;
using namespace nb::literals;

// Errors.

// What the core refuses; Python sees a fedmrn.FrameError.
nb::object FrameErrorOf(const Error& error);
[[noreturn]] void ThrowFrameError(const Error& error);
// Once, before any of them is thrown.
void RegisterFrameError();

template <typename T>
T Must(Result<T> result) {
  if (!result) ThrowFrameError(result.error());
  return std::move(result).value();
}

[[noreturn]] void BadType(const std::string& message);
[[noreturn]] void BadValue(const std::string& message);

// Arrays.

// An array that somebody else owns, as a flat vector of floats. While it lives
// the memory does.
class Floats {
 public:
  enum Access { kRead, kWrite };
  static constexpr size_t kAnySize = std::numeric_limits<size_t>::max();

  Floats(const char* name, nb::handle object, Access access,
         size_t size = kAnySize);

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
                                     size_t size = Floats::kAnySize);

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

inline ByteView BytesOf(const nb::bytes& bytes) {
  return {static_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Names; one that is not known is a ValueError.

NoiseKind NoiseKindNamed(const std::string& name);
const char* NameOf(NoiseKind kind);
PlainKind PlainKindNamed(const std::string& name);
const char* NameOf(PlainKind kind);
MaskKind MaskNamed(const std::string& name);
const Codec& CodecNamed(const std::string& name);

// Noise.

// Instead of a magnitude for all parameters: one for each tensor, (length,
// magnitude).
using Pairs = std::vector<std::tuple<uint32_t, float>>;

// As a frame has them.
Bytes BytesOf(const Pairs& magnitudes);
Pairs PairsOf(const MagnitudesView& magnitudes);

// Noise that can be drawn, or a ValueError; it points into `magnitudes`, whose
// tensors must have as many values as there are `params`.
Noise SoundNoise(const std::string& kind, float magnitude, uint64_t seed,
                 const Bytes& magnitudes = {},
                 std::optional<uint64_t> params = std::nullopt);

}  // namespace fedmrn::python
