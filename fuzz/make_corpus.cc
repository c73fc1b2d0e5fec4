// Writes the fuzzers' seed inputs: make_corpus testdata/fuzz. To be run again
// when the frame format changes; what fuzzing found stays beside them.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

namespace fs = std::filesystem;

bool Write(const fs::path& path, ByteView bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return !file.fail();
}

struct FrameSeed {
  CodecId codec;
  size_t params = 33;
  size_t plain_count = 0;
  PlainKind plain_kind = PlainKind::kFloat32;
  bool broadcast = false;
  NoiseKind noise = NoiseKind::kUniform;
  EncodeOptions options = {};
  bool magnitudes = false;  // of the options' segments
  float first_times = 1;    // the first segment's update is larger
};

Bytes MakeFrame(const FrameSeed& seed) {
  const Codec& codec = *FindCodec(seed.codec);
  FrameHeader header;
  header.codec = seed.codec;
  header.broadcast = seed.broadcast;
  header.plain_kind = seed.plain_kind;
  header.run = 5;
  header.round = 3;
  header.client = 7;
  header.examples = seed.broadcast ? 0 : 600;
  header.fingerprint = 0x0123456789abcdef;
  if (codec.uses_noise) header.noise = {seed.noise, 0.01f, 0};
  if (codec.uses_seed) header.noise.seed = 42;
  const Bytes magnitudes = MagnitudeBytes(seed.options.segments, 0.02f);
  if (seed.magnitudes) {
    header.noise.magnitude = 0;
    header.noise.magnitudes = MagnitudesView(magnitudes);
  }
  std::vector<float> update(seed.params), plain(seed.plain_count);
  NoiseValues({NoiseKind::kGaussian, 0.005f, 1}, 0, update);
  NoiseValues({NoiseKind::kUniform, 1.0f, 2}, 0, plain);
  EncodeOptions options = seed.options;
  if (seed.first_times != 1) {
    for (float& u : std::span(update).first(options.segments[0])) {
      u *= seed.first_times;
    }
  }
  const std::vector<float> reference(seed.plain_count, 0.5f);
  options.plain_reference = reference;
  return EncodeFrame(header, options, update, plain).value();
}

// A frame that was changed by its writer: the checksum is right.
Bytes Changed(Bytes frame, const std::function<void(Bytes&)>& change) {
  change(frame);
  wire::StoreChecksum(frame);
  return frame;
}

template <typename T>
std::function<void(Bytes&)> Put(wire::Field<T> field,
                                std::type_identity_t<T> value) {
  return [=](Bytes& frame) { field.Store(value, frame.data()); };
}

// Stores at an offset of the payload.
template <typename T>
std::function<void(Bytes&)> PutInPayload(size_t offset, T value) {
  return Put(wire::Field<T>{wire::kPayload + offset}, value);
}

bool WriteFrames(const fs::path& folder) {
  using enum CodecId;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<uint32_t> segments = {5, 27, 1};
  EncodeOptions parts;
  parts.segments = segments;
  EncodeOptions biased = parts, bits4 = parts, keep_all;
  biased.unbiased = false;
  bits4.bits = 4;
  keep_all.keep = 1;

  bool ok = true;
  const auto save = [&](const std::string& name, const Bytes& frame) {
    ok = Write(folder / name, frame) && ok;
  };
  for (const Codec& codec : Codecs()) {
    for (size_t params : {1, 7, 33, 300}) {
      save("good-" + std::string(codec.name) + "-" + std::to_string(params),
           MakeFrame({.codec = codec.id, .params = params}));
    }
  }
  save("good-gaussian",
       MakeFrame({.codec = kMrnBinary, .noise = NoiseKind::kGaussian}));
  save("good-bernoulli",
       MakeFrame({.codec = kMrnSigned, .noise = NoiseKind::kBernoulli}));
  save("good-broadcast", MakeFrame({.codec = kFloat32, .broadcast = true}));
  save("good-plain", MakeFrame({.codec = kMrnBinary, .plain_count = 9}));
  save("good-plain-half", MakeFrame({.codec = kMrnBinary,
                                     .plain_count = 9,
                                     .plain_kind = PlainKind::kFloat16}));
  save("good-signsgd-segments",
       MakeFrame({.codec = kSignSgd, .options = parts}));
  save("good-terngrad-segments",
       MakeFrame({.codec = kTernGrad, .options = parts}));
  save("good-drive-biased", MakeFrame({.codec = kDrive, .options = biased}));
  save("good-eden-4", MakeFrame({.codec = kEden, .options = bits4}));
  save("good-topk-all", MakeFrame({.codec = kTopK, .options = keep_all}));

  const Bytes mask = MakeFrame({.codec = kMrnBinary, .plain_count = 2});
  const std::vector<uint32_t> tensors = {1000, 1, 1999};
  EncodeOptions three;
  three.segments = tensors;
  const Bytes coded =
      MakeFrame({.codec = kMrnBinary, .params = 3000, .options = three});
  save("good-coded", coded);
  save("good-coded-signed", MakeFrame({.codec = kMrnSigned,
                                       .params = 3000,
                                       .noise = NoiseKind::kBernoulli,
                                       .options = three}));
  save("good-coded-gaussian", MakeFrame({.codec = kMrnBinary,
                                         .params = 5003,
                                         .noise = NoiseKind::kGaussian}));
  const Bytes steered =
      MakeFrame({.codec = kMrnBinary, .options = parts, .magnitudes = true});
  save("good-magnitudes", steered);
  save("good-magnitudes-broadcast", MakeFrame({.codec = kFloat32,
                                               .broadcast = true,
                                               .options = parts,
                                               .magnitudes = true}));
  save("good-magnitudes-coded", MakeFrame({.codec = kMrnSigned,
                                           .params = 3000,
                                           .options = three,
                                           .magnitudes = true}));
  const Bytes floats = MakeFrame({.codec = kFloat32});
  const Bytes halves = MakeFrame({.codec = kFloat16});
  const Bytes signs = MakeFrame({.codec = kSignSgd, .options = parts});
  const Bytes trits = MakeFrame({.codec = kTernGrad, .options = parts});
  const Bytes topk = MakeFrame({.codec = kTopK, .options = keep_all});
  const Bytes drive = MakeFrame({.codec = kDrive, .options = parts});
  const Bytes eden = MakeFrame({.codec = kEden, .options = bits4});
  const Bytes coded_trits =
      MakeFrame({.codec = kTernGrad, .params = 3000, .options = three});
  save("good-coded-trits", coded_trits);
  const Bytes coded_signs =
      MakeFrame({.codec = kSignSgd, .params = 3000, .options = three});
  save("good-coded-signs", coded_signs);
  const Bytes coded_bits =
      MakeFrame({.codec = kMask, .params = 3000, .options = three});
  save("good-coded-bits", coded_bits);
  EncodeOptions tenth;
  tenth.keep = 0.1;
  const uint32_t uneven[] = {450, 8550};
  tenth.segments = uneven;
  const Bytes coded_topk = MakeFrame(
      {.codec = kTopK, .params = 9000, .options = tenth, .first_times = 128});
  save("good-coded-topk", coded_topk);
  const Bytes delta = MakeFrame(
      {.codec = kMrnBinary, .plain_count = 9, .plain_kind = PlainKind::kDelta});
  save("good-delta", delta);
  const Bytes plain_half = MakeFrame({.codec = kMrnBinary,
                                      .plain_count = 2,
                                      .plain_kind = PlainKind::kFloat16});

  save("bad-empty", {});
  for (size_t length : {1, 71, 79, 84}) {
    save("bad-truncated-" + std::to_string(length),
         Bytes(mask.begin(), mask.begin() + static_cast<ptrdiff_t>(length)));
  }
  Bytes longer = mask;
  longer.push_back(0);
  save("bad-too-long", longer);
  Bytes flipped = mask;
  flipped[wire::kPayload + 1] ^= 4;
  save("bad-flipped-bit", flipped);

  const struct {
    const char* name;
    const Bytes& frame;
    std::function<void(Bytes&)> change;
  } kChanged[] = {
      {"magic", mask, [](Bytes& frame) { frame[0] = 'X'; }},
      {"version", mask, Put(wire::kVersion, 9)},
      {"codec", mask, Put(wire::kCodec, 200)},
      {"flags", mask, Put(wire::kFlags, 8)},
      {"noise-kind", mask, Put(wire::kNoiseKind, 9)},
      {"no-examples", mask, Put(wire::kExamples, 0)},
      {"many-examples", mask, Put(wire::kExamples, 0xffffffff)},
      {"seed-unused", floats, Put(wire::kSeed, 1)},
      {"params-0", mask, Put(wire::kParams, 0)},
      {"params-2e60", mask, Put(wire::kParams, uint64_t{1} << 60)},
      {"payload-2e60", mask, Put(wire::kPayloadBytes, uint64_t{1} << 60)},
      {"payload-wraps", mask, Put(wire::kPayloadBytes, ~uint64_t{0} - 7)},
      {"plain-count", mask, Put(wire::kPlainCount, 0xffffffff)},
      {"magnitude-nan", mask, Put(wire::kMagnitude, kNan)},
      {"magnitude-huge", mask, Put(wire::kMagnitude, 1e30f)},
      {"magnitudes-kind", steered, PutInPayload<uint16_t>(0, 0x8002)},
      {"magnitudes-none", steered, PutInPayload<uint16_t>(0, 1)},
      {"magnitudes-length", steered, PutInPayload<uint16_t>(2, 23)},
      {"magnitudes-long", steered, PutInPayload<uint16_t>(2, 0xffff)},
      {"magnitudes-tensor-0", steered, PutInPayload<uint32_t>(4, 0)},
      {"magnitudes-sum", steered, PutInPayload<uint32_t>(4, 6)},
      {"magnitudes-nan", steered, PutInPayload<float>(8, kNan)},
      {"magnitudes-huge", steered, PutInPayload<float>(8, 1e30f)},
      {"magnitudes-and-one", steered, Put(wire::kMagnitude, 0.01f)},
      {"magnitudes-unused", steered, Put(wire::kCodec, 10)},
      {"signs-version-1", coded_signs, Put(wire::kVersion, 1)},
      {"signs-packed", coded_signs, Put(wire::kCodecParam, 0)},
      {"signs-seed", coded_signs, Put(wire::kSeed, 43)},
      {"signs-segments", coded_signs, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"signs-tensors", coded_signs, PutInPayload<uint32_t>(28, 0xffffffff)},
      {"signs-sum", coded_signs, PutInPayload<uint32_t>(32, 6)},
      {"signs-table-long", coded_signs, PutInPayload<uint8_t>(44, 65)},
      {"bits-packed", coded_bits, Put(wire::kCodecParam, 0)},
      {"bits-coding", coded_bits, Put(wire::kCodecParam, 2)},
      {"bits-tensors", coded_bits, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"bits-table-byte", coded_bits, PutInPayload<uint8_t>(17, 1)},
      {"bits-params", coded_bits, Put(wire::kParams, 3001)},
      {"positions-rice", coded_topk, Put(wire::kCodecParam, 0)},
      {"positions-coding", coded_topk, Put(wire::kCodecParam, 2)},
      {"positions-none", coded_topk, PutInPayload<uint32_t>(0, 0)},
      {"positions-fewer", coded_topk, PutInPayload<uint32_t>(0, 899)},
      {"positions-many", coded_topk, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"positions-tensors", coded_topk,
       PutInPayload<uint32_t>(4 + 4 * 900, 0xffffffff)},
      {"positions-state", coded_topk, PutInPayload<uint32_t>(4 + 3600 + 16, 1)},
      {"trits-version-1", coded_trits, Put(wire::kVersion, 1)},
      {"trits-packed", coded_trits, Put(wire::kCodecParam, 0)},
      {"trits-segments", coded_trits, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"trits-share", coded_trits, PutInPayload<uint8_t>(28, 1)},
      {"trits-length", coded_trits, PutInPayload<uint32_t>(31, 0xffffffff)},
      {"trits-length-2", coded_trits, PutInPayload<uint32_t>(31, 2)},
      {"trits-state", coded_trits, PutInPayload<uint32_t>(35, 1)},
      {"delta-version-1", delta, Put(wire::kVersion, 1)},
      {"delta-and-half", delta, Put(wire::kFlags, 5)},
      {"delta-count", delta, Put(wire::kPlainCount, 10)},
      {"delta-tensors", delta, PutInPayload<uint32_t>(5, 2)},
      {"delta-step-nan", delta, PutInPayload<float>(5 + 8, kNan)},
      {"delta-step-huge", delta, PutInPayload<float>(5 + 8, 0x1p40f)},
      {"delta-rice", delta, PutInPayload<uint8_t>(5 + 12, 200)},
      {"version-1", mask, Put(wire::kVersion, 1)},
      {"run", mask, Put(wire::kRun, 6)},
      {"plain-bytes", mask, Put(wire::kPlainBytes, 7)},
      {"extensions", mask, Put(wire::kExtensionBytes, 4)},
      {"extensions-2e32", mask, Put(wire::kExtensionBytes, 0xffffffff)},
      {"param-unused", floats, Put(wire::kCodecParam, 1)},
      {"coded-too-short", mask, Put(wire::kCodecParam, 1)},
      {"coded-not", coded, Put(wire::kCodecParam, 0)},
      {"coded-version-1", coded, Put(wire::kVersion, 1)},
      {"coded-seed", coded, Put(wire::kSeed, 43)},
      {"coded-params", coded, Put(wire::kParams, 3001)},
      {"coded-count-0", coded, PutInPayload<uint32_t>(0, 0)},
      {"coded-count-huge", coded, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"coded-tensor-empty", coded, PutInPayload<uint32_t>(8, 0)},
      {"coded-sum", coded, PutInPayload<uint32_t>(4, 6)},
      {"coded-table-long", coded, PutInPayload<uint8_t>(16, 65)},
      {"coded-table-none", coded, PutInPayload<uint8_t>(16, 0)},
      {"coded-table-byte", coded, PutInPayload<uint8_t>(17, 1)},
      {"coded-state-low", coded, PutInPayload<uint32_t>(60, 0x10)},
      {"coded-state-high", coded, PutInPayload<uint32_t>(60, 0xffffffff)},
      {"coded-last-word", coded,
       [](Bytes& frame) {
         frame[frame.size() - kFrameChecksumBytes - 1] ^= 0xff;
       }},
      {"mask-padding", mask, PutInPayload<uint8_t>(4, 0xff)},
      {"plain-nan", mask, PutInPayload<float>(5 + 4, kNan)},
      {"plain-huge", mask, PutInPayload<float>(5, 3e38f)},
      {"plain-half-nan", plain_half, PutInPayload<uint16_t>(5, 0x7e00)},
      {"float32-nan", floats, PutInPayload<float>(8, kNan)},
      {"float32-huge", floats, PutInPayload<float>(8, 3e38f)},
      {"float16-inf", halves, PutInPayload<uint16_t>(8, 0xfc00)},
      {"segment-count-0", signs, PutInPayload<uint32_t>(0, 0)},
      {"segment-count-huge", signs, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"segment-empty", signs, PutInPayload<uint32_t>(4, 0)},
      {"segment-sum", signs, PutInPayload<uint32_t>(4, 6)},
      {"scale-negative", signs, PutInPayload<float>(16, -1)},
      {"scale-inf", trits,
       PutInPayload<float>(16, std::numeric_limits<float>::infinity())},
      {"trit-byte", trits, PutInPayload<uint8_t>(28, 243)},
      {"topk-none", topk, PutInPayload<uint32_t>(0, 0)},
      {"topk-too-many", topk, PutInPayload<uint32_t>(0, 0xffffffff)},
      {"topk-rice-32", topk, PutInPayload<uint32_t>(4, 32)},
      {"topk-rice-31", topk, PutInPayload<uint32_t>(4, 31)},
      {"topk-params-2e32", topk, Put(wire::kParams, uint64_t{1} << 32)},
      {"drive-param", drive, Put(wire::kCodecParam, 2)},
      {"drive-scale-most", drive, PutInPayload<float>(16, 0x1p64f)},
      {"drive-scale-huge", drive, PutInPayload<float>(16, 3e38f)},
      {"mask-broadcast", mask, Put(wire::kFlags, wire::kBroadcastFlag)},
      {"eden-bits-0", eden, Put(wire::kCodecParam, 0)},
      {"eden-bits-3", eden, Put(wire::kCodecParam, 3)},
      {"topk-unary", topk,
       [](Bytes& frame) {
         frame[frame.size() - kFrameChecksumBytes - 1] = 0xff;
       }},
  };
  for (const auto& [name, frame, change] : kChanged) {
    save("changed-" + std::string(name), Changed(frame, change));
  }
  return ok;
}

// Random bytes do for the kernels' settings; see kernels_fuzz.cc for what the
// first byte chooses.
bool WriteKernels(const fs::path& folder) {
  const char* const kNames[] = {
      "philox-words", "noise-odds",         "masked-step", "final-mask",
      "hadamard",     "add-masked",         "add-floats",  "largest-magnitude",
      "coded-mask",   "magnitudes-between", "float16s",    "pack",
  };
  bool ok = true;
  for (uint8_t kernel = 0; kernel < std::size(kNames); ++kernel) {
    for (uint32_t variant = 0; variant < 6; ++variant) {
      std::vector<uint32_t> words(16 + 60 * variant);
      PhiloxWords({kernel, Purpose::kNoise, variant}, 0, words);
      Bytes input = {kernel};
      AppendLe(std::span<const uint32_t>(words), input);
      ok = Write(folder / (std::string(kNames[kernel]) + "-" +
                           std::to_string(variant)),
                 input) &&
           ok;
    }
  }
  // TryPhiloxWords' fields, for streams that cross block 2^32 or 2^64.
  struct Carry {
    uint16_t base, blocks_below, length, shift;
  };
  for (const auto& [base, blocks_below, length, shift] : {Carry{1, 3, 140, 0},
                                                          {1, 600, 5000, 1},
                                                          {2, 8, 500, 0},
                                                          {0, 9, 99, 3}}) {
    Bytes input = {0};
    AppendLe(uint64_t{42}, input);  // seed
    AppendLe(uint16_t{0}, input);   // purpose
    AppendLe(uint32_t{0}, input);   // sub
    AppendLe(uint8_t{0}, input);    // the base is a multiple of 2^32
    AppendLe(base, input);
    AppendLe(blocks_below, input);
    AppendLe(uint8_t{0}, input);  // the length is up to kMaxLength
    AppendLe(length, input);
    AppendLe(shift, input);
    ok = Write(folder / ("philox-words-carry-" + std::to_string(length)),
               input) &&
         ok;
  }
  return ok;
}

}  // namespace
}  // namespace fedmrn

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const fs::path folder = argv[1];
  std::error_code failure;
  fs::create_directories(folder / "frame", failure);
  fs::create_directories(folder / "kernels", failure);
  return fedmrn::WriteFrames(folder / "frame") &&
                 fedmrn::WriteKernels(folder / "kernels")
             ? 0
             : 1;
}
