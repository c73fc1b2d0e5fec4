#include <mutex>

#include "fedmrn/core/aggregate.h"
#include "python/arguments.h"
#include "python/bindings.h"

namespace fedmrn::python {
namespace {

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
    Must(Unlocked([&] { return aggregator_.AddSoon(bytes, threads); }));
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
    Must(Unlocked([&] {
      aggregator_.Settle(threads);
      return aggregator_.Finish(to.writable(), plain_to, threads);
    }));
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

}  // namespace

void BindAggregator(nb::module_& module) {
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

}  // namespace fedmrn::python
