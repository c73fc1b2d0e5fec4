// Noise, the local step of Algorithm 1, and seeds.
#include <array>

#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/philox.h"
#include "python/arguments.h"
#include "python/bindings.h"

namespace fedmrn::python {
namespace {

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

}  // namespace

void BindMasking(nb::module_& module) {
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
}

}  // namespace fedmrn::python
