// fedmrn bench core: the core's speed, each figure with its baseline measured
// in the same run, alternating with it, because machines are noisy.
#include <Random123/philox.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "fedmrn/cli/bench.h"
#include "fedmrn/core/accumulate.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/hadamard.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/tile.h"

namespace fedmrn::cli {
namespace {

constexpr size_t kParams = size_t{1} << 24;

Aggregator EmptySum(CodecId codec, const Noise& noise) {
  RoundSpec spec;
  spec.params = kParams;
  spec.codec = codec;
  spec.noise = noise.kind;
  spec.magnitude = noise.magnitude;
  return Aggregator::Create(spec).value();
}
constexpr size_t kHadamardFloats = size_t{1} << 20;
constexpr size_t kWords = size_t{1} << 16;  // fits L2: measures the generator

// Median seconds of each of several works, run in turn `repeats` times after
// one turn to warm up; and, for each, the median of its times over the first
// work's time in the same turn.
struct Timing {
  double seconds;
  double ratio_to_first;
};
std::vector<Timing> Compare(int repeats,
                            const std::vector<std::function<void()>>& works) {
  std::vector<std::vector<double>> seconds(works.size()), ratios(works.size());
  for (int turn = -1; turn < repeats; ++turn) {
    double first = 0;
    for (size_t i = 0; i < works.size(); ++i) {
      const double s = SecondsOf(works[i]);
      if (i == 0) first = s;
      if (turn >= 0) {
        seconds[i].push_back(s);
        ratios[i].push_back(s / first);
      }
    }
  }
  std::vector<Timing> result;
  for (size_t i = 0; i < works.size(); ++i) {
    result.push_back({Median(seconds[i]), Median(ratios[i])});
  }
  return result;
}

// Values like a trained update's: about a tenth of the noise's magnitude.
std::vector<float> SomeUpdate(uint64_t seed, size_t size) {
  std::vector<float> values(size);
  NoiseValues({NoiseKind::kGaussian, 0.001f, seed}, 0, values);
  return values;
}

// Random123's own loop, as its documentation shows it.
void Random123Words(uint64_t seed, std::vector<uint32_t>& words) {
  r123::Philox4x32 generate;
  const r123::Philox4x32::key_type key = {
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  for (size_t block = 0; block < words.size() / 4; ++block) {
    const r123::Philox4x32::ctr_type counter = {
        {static_cast<uint32_t>(block), 0, 0, 0}};
    const r123::Philox4x32::ctr_type out = generate(counter, key);
    std::copy(out.begin(), out.end(), words.begin() + 4 * block);
  }
}

// What FedAvg's local step does; the compiler vectorises it.
void PlainSgd(std::vector<float>& w, const std::vector<float>& g, float lr) {
  for (size_t i = 0; i < w.size(); ++i) w[i] -= lr * g[i];
}

std::vector<BenchRow> RunCore(int repeats,
                              const std::function<void(const char*)>& say) {
  std::vector<BenchRow> rows;
  const auto ms = [](double s) { return fmt::format("{:.2f} ms", s * 1e3); };

  say("aggregation");
  {
    constexpr size_t kClients = 10;
    const uint64_t tiles = TilesFor(kParams);
    std::vector<std::vector<float>> floats;
    std::vector<Bytes> masks;
    std::vector<FloatUpdate> dense;
    std::vector<MaskedUpdate> masked;
    for (size_t k = 0; k < kClients; ++k) {
      floats.push_back(SomeUpdate(k, kParams));
      Masking masking;
      masking.noise.seed = k + 1;
      masks.emplace_back(kParams / 8);
      FinalMask(masking, floats[k], masks[k]);
      dense.push_back({reinterpret_cast<const uint8_t*>(floats[k].data()),
                       600.0 * (1 << 26)});
      masked.push_back({masking.noise, masks[k].data(), 600});
    }
    std::vector<int64_t> sum(kParams);
    std::vector<SmallTile> small(tiles);
    std::vector<float> plain_sum(kParams);
    const auto add = [&](size_t count, bool masks_too) {
      return [&, count, masks_too] {
        if (masks_too) {
          AddMasked(MaskKind::kBinary, std::span(masked).first(count), 0, tiles,
                    kParams, small);
        } else {
          AddFloats(std::span(dense).first(count), 0, tiles, sum);
        }
      };
    };
    const auto one = Compare(repeats, {add(1, false), add(1, true), [&] {
                                         for (size_t i = 0; i < kParams; ++i) {
                                           plain_sum[i] += 0.1f * floats[0][i];
                                         }
                                       }});
    rows.push_back(
        {"aggregate_vs_dense_ratio", one[1].ratio_to_first, "<= 1.0",
         ms(one[1].seconds) + " / " + ms(one[0].seconds) + ", one client"});
    rows.push_back({"aggregate_vs_float_axpy_ratio",
                    one[1].seconds / one[2].seconds, "reported",
                    "against sum += p*x in float32, not order-independent: " +
                        ms(one[2].seconds)});
    const auto ten =
        Compare(repeats, {add(kClients, false), add(kClients, true)});
    rows.push_back({"aggregate_10_vs_dense_ratio", ten[1].ratio_to_first,
                    "<= 1.0",
                    ms(ten[1].seconds) + " / " + ms(ten[0].seconds) +
                        ", ten clients together"});
    rows.push_back({"aggregate_10_gparams_per_s",
                    1e-9 * kClients * kParams / ten[1].seconds, "reported",
                    "masked parameters added, 10^9 per second"});
  }

  say("aggregation from bytes");
  {
    // The whole way of a frame: parse, check, add.
    std::vector<float> update = SomeUpdate(1, kParams);
    const auto frame_of = [&](CodecId codec, Noise noise) {
      FrameHeader header;
      header.codec = codec;
      header.examples = 600;
      header.noise = noise;
      EncodeOptions plain;
      plain.entropy = false;
      return EncodeFrame(header, plain, update, {}).value();
    };
    const Noise noise{NoiseKind::kUniform, 0.01f, 1};
    const Bytes mask_frame = frame_of(CodecId::kMrnBinary, noise);
    const Bytes float_frame =
        frame_of(CodecId::kFloat32, {NoiseKind::kNone, 0, 0});
    const Aggregator empty_masked = EmptySum(CodecId::kMrnBinary, noise);
    const Aggregator empty_dense =
        EmptySum(CodecId::kFloat32, {NoiseKind::kNone, 0, 0});
    std::vector<double> mask_s, dense_s, threads_s;
    for (int turn = 0; turn < repeats; ++turn) {
      Aggregator a = empty_masked, b = empty_dense, c = empty_masked;
      mask_s.push_back(SecondsOf([&] { (void)a.Add(mask_frame); }));
      dense_s.push_back(SecondsOf([&] { (void)b.Add(float_frame); }));
      threads_s.push_back(SecondsOf([&] {
        (void)c.Add(mask_frame,
                    static_cast<int>(std::thread::hardware_concurrency()));
      }));
    }
    rows.push_back({"add_frame_vs_dense_ratio",
                    Median(mask_s) / Median(dense_s), "reported",
                    ms(Median(mask_s)) + " / " + ms(Median(dense_s)) +
                        ", from received bytes: parse, check, add"});
    rows.push_back(
        {"add_frame_threads_speedup", Median(mask_s) / Median(threads_s),
         "reported",
         fmt::format("{} threads: {}", std::thread::hardware_concurrency(),
                     ms(Median(threads_s)))});
  }

  say("entropy-coded masks");
  {
    // As late in a run on Fashion-MNIST: 22 % of the mask's bits are ones.
    std::vector<float> update(kParams);
    NoiseValues({NoiseKind::kGaussian, 0.0024f, 1}, 0, update);
    FrameHeader header;
    header.codec = CodecId::kMrnBinary;
    header.examples = 600;
    header.noise = {NoiseKind::kUniform, 0.01f, 1};
    EncodeOptions coded, plain;
    plain.entropy = false;
    const auto encode = [&](const EncodeOptions& options) {
      return EncodeFrame(header, options, update, {}).value();
    };
    const Bytes coded_frame = encode(coded), plain_frame = encode(plain);
    const FrameView view = ParseFrame(coded_frame).value();
    const double per_param = 8.0 * static_cast<double>(view.payload.size()) /
                             static_cast<double>(kParams);
    const PayloadFact& ones = FindCodec(header.codec)->facts[0];
    Bytes bits(BytesForBits(kParams));
    const auto t =
        Compare(std::max(3, repeats / 3),
                {[&] { (void)encode(plain); }, [&] { (void)encode(coded); },
                 [&] {
                   (void)DecodeMask(MaskKind::kBinary, header.noise, kParams,
                                    view.payload, bits);
                 }});
    const auto rate = [](const Timing& timing) {
      return 1e-9 * kParams / timing.seconds;
    };
    rows.push_back({"plain_encode_gparams_per_s", rate(t[0]), "reported",
                    "draw, one bit each: " + ms(t[0].seconds)});
    rows.push_back({"coded_encode_gparams_per_s", rate(t[1]), ">= 0.2",
                    "draw, count, code: " + ms(t[1].seconds)});
    rows.push_back({"coded_decode_gparams_per_s", rate(t[2]), ">= 0.4",
                    "to mask bits: " + ms(t[2].seconds)});
    rows.push_back(
        {"coded_bits_per_param", per_param, "reported",
         fmt::format("{:.1f} % ones", 100 * ones.value(view) / kParams)});

    header.codec = CodecId::kFloat32;
    header.noise = {NoiseKind::kNone, 0, 0};
    const Bytes float_frame = encode({});
    const Aggregator empty_masked = EmptySum(CodecId::kMrnBinary, view.noise);
    const Aggregator empty_dense =
        EmptySum(CodecId::kFloat32, {NoiseKind::kNone, 0, 0});
    std::vector<double> coded_s, plain_s, dense_s;
    for (int turn = 0; turn < repeats; ++turn) {
      Aggregator a = empty_masked, b = empty_masked, c = empty_dense;
      coded_s.push_back(SecondsOf([&] { (void)a.Add(coded_frame); }));
      plain_s.push_back(SecondsOf([&] { (void)b.Add(plain_frame); }));
      dense_s.push_back(SecondsOf([&] { (void)c.Add(float_frame); }));
    }
    rows.push_back({"aggregate_coded_vs_dense_ratio",
                    Median(coded_s) / Median(dense_s), "<= 1.0",
                    ms(Median(coded_s)) + " / " + ms(Median(dense_s)) +
                        ", from received bytes: parse, check, decode, add"});
    rows.push_back({"aggregate_plain_vs_dense_ratio",
                    Median(plain_s) / Median(dense_s), "reported",
                    ms(Median(plain_s)) + ", the same with one bit each"});
  }

  say("random numbers");
  {
    std::vector<uint32_t> words(kWords);
    const int inner = 64;
    const auto t =
        Compare(repeats, {[&] {
                            for (int i = 0; i < inner; ++i)
                              Random123Words(i, words);
                          },
                          [&] {
                            for (int i = 0; i < inner; ++i) {
                              PhiloxWords({static_cast<uint64_t>(i)}, 0, words);
                            }
                          }});
    rows.push_back({"philox_gwords_per_s", 1e-9 * inner * kWords / t[1].seconds,
                    "reported", "32-bit words, 10^9 per second"});
    rows.push_back({"philox_vs_random123_ratio", 1 / t[1].ratio_to_first,
                    ">= 4.0",
                    fmt::format("Random123's own loop: {:.3f}",
                                1e-9 * inner * kWords / t[0].seconds)});
  }

  say("Hadamard transform");
  {
    std::vector<float> x = SomeUpdate(3, kHadamardFloats);
    const auto t = Compare(repeats * 3, {[&] { Hadamard(x); },
                                         [&] {
                                           for (float& v : x) v *= 0x1p-10f;
                                         }});
    rows.push_back({"fwht_gfloats_per_s", 1e-9 * kHadamardFloats / t[0].seconds,
                    ">= 1.5", "2^20 floats: " + ms(t[0].seconds)});
  }

  say("masked step");
  {
    std::vector<float> w(kParams, 0.05f), g = SomeUpdate(4, kParams),
                                          u(kParams), effective(kParams);
    Masking masking;
    LocalStep at{10, 100, 0.1f};
    const auto t = Compare(
        repeats, {[&] { PlainSgd(w, g, 1e-9f); },
                  [&] { MaskedStep(masking, at, w, g, u, effective); }});
    rows.push_back({"mask_step_vs_sgd_ratio", t[1].ratio_to_first, "<= 3.0",
                    ms(t[1].seconds) + " / " + ms(t[0].seconds) +
                        " (w -= lr*g), 2^24 parameters"});
  }

  say("encoding");
  {
    const std::vector<float> update = SomeUpdate(5, kParams);
    const auto encode = [&](CodecId codec, Noise noise) {
      return [&, codec, noise] {
        FrameHeader header;
        header.codec = codec;
        header.examples = 1;
        header.noise = noise;
        EncodeOptions plain;
        plain.entropy = false;
        (void)EncodeFrame(header, plain, update, {}).value();
      };
    };
    const auto t =
        Compare(std::max(3, repeats / 3),
                {encode(CodecId::kMrnBinary, {NoiseKind::kUniform, 0.01f, 1}),
                 encode(CodecId::kDrive, {NoiseKind::kNone, 0, 1})});
    rows.push_back({"drive_encode_vs_mrn_ratio", t[1].ratio_to_first,
                    "reported",
                    ms(t[1].seconds) + " / " + ms(t[0].seconds) +
                        ", whole frames of 2^24 parameters"});
  }

  say("codecs");
  for (const Codec& codec : Codecs()) {
    // The paper's CNN4.
    constexpr size_t kCnn4 = 389'920;
    std::vector<float> update = SomeUpdate(6, kCnn4), decoded(kCnn4);
    if (codec.encodes_probabilities) {
      for (float& u : update) u = 0.5f + 100 * u;
    }
    FrameHeader header;
    header.codec = codec.id;
    header.examples = 600;
    header.noise.seed = codec.uses_seed ? 1 : 0;
    if (codec.uses_noise) header.noise = {NoiseKind::kUniform, 0.01f, 1};
    EncodeOptions options;
    options.scale = 0.005f;
    const auto encode = [&] {
      return EncodeFrame(header, options, update, {}).value();
    };
    const Bytes frame = encode();
    Bytes scratch;
    const auto t = Compare(
        repeats, {[&] { (void)encode(); },
                  [&] {
                    const Receiver receiver{.scratch = &scratch};
                    codec.decode(ParseFrame(frame, receiver).value(), decoded);
                  }});
    const char* const target = codec.id == CodecId::kEden ? "<= 1.5" : "<= 2.0";
    const std::string name(codec.name);
    rows.push_back(
        {name + "_encode_ms", 1e3 * t[0].seconds, target,
         fmt::format("389,920 parameters, {:.3f} bits each",
                     8.0 * static_cast<double>(frame.size()) / kCnn4)});
    rows.push_back({name + "_decode_ms", 1e3 * t[1].seconds, target,
                    "the same: parse, check, decode"});
  }
  return rows;
}

}  // namespace

void AddBenchCore(Verb bench) {
  const Verb core = bench.AddVerb(
      "core", "Noise, masks, transforms and aggregation, on one thread");
  struct Options {
    bool json = false;
    int repeats = 15;
  };
  auto options = std::make_shared<Options>();
  core.AddFlag("--json", options->json, "Print a JSON object");
  core.AddOption("--repeats", options->repeats, "Repetitions of each figure")
      .Between(3, 1000)
      .ShowDefault();
  core.Do([options] {
    const auto rows = RunCore(options->repeats, [](const char* what) {
      fmt::print(stderr, "measuring {} ...\n", what);
    });
    PrintBench(rows, options->json, Json::object(),
               static_cast<uint32_t>(options->repeats), "repetitions");
    return kExitOk;
  });
}

}  // namespace fedmrn::cli
