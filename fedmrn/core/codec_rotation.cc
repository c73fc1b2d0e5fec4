// drive and eden: rotate, then quantise each coordinate. Both rotate the
// power-of-two blocks of each segment, r = H D x / sqrt(d) with random signs D
// from the header's seed, and send a scale per block:
//   drive: the signs of r; scale |r|_1/d (least error) or |r|_2^2/|r|_1
//          (unbiased), as codec_param says (0, 1);
//   eden:  indices of the Lloyd-Max quantiser of N(0,1) at codec_param = 1..4
//          bits; scale |r|_2^2 / <c, r>, unbiased.
// Decoding is S * D H c / sqrt(d) for both.
#include <algorithm>
#include <cmath>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/hadamard.h"
#include "fedmrn/core/pack.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/scan.h"

namespace fedmrn {
namespace {

// Lloyd-Max quantisers of the standard normal distribution (EDEN, ICML'22): the
// positive halves.
constexpr float kCentroids[4][8] = {
    {0.7978845608028654f},
    {0.4527800398860679f, 1.5104176087114887f},
    {0.24509416307340598f, 0.7560052489539643f, 1.3439092613750225f,
     2.151945669890335f},
    {0.12839501671105813f, 0.38804823445328507f, 0.6567589957631145f,
     0.9423402689122875f, 1.2562309480263467f, 1.6180460517130526f,
     2.069016730231837f, 2.732588804065177f}};

// All 2^bits centroids, ascending, and the midpoints between them.
struct Quantiser {
  explicit Quantiser(int bits) : levels(1 << bits) {
    const int half = levels / 2;
    for (int i = 0; i < half; ++i) {
      centroid[half + i] = kCentroids[bits - 1][i];
      centroid[half - 1 - i] = -kCentroids[bits - 1][i];
    }
    for (int i = 0; i + 1 < levels; ++i) {
      edge[i] = (centroid[i] + centroid[i + 1]) / 2;
    }
  }
  // A value on an edge goes to the lower cell.
  uint32_t Index(float z) const {
    uint32_t index = 0;
    for (int i = 0; i + 1 < levels; ++i) index += z > edge[i];
    return index;
  }

  int levels;
  float centroid[16] = {};
  float edge[15] = {};
};

// x[j] *= D[first + j] * factor. D is the Bernoulli stream of the seed.
void ApplySigns(uint64_t seed, uint64_t first, float factor,
                std::span<float> x) {
  const PhiloxStream stream{seed, Purpose::kRotation, 0};
  constexpr size_t kWords = 128;
  uint32_t words[kWords];
  for (size_t done = 0; done < x.size();) {
    const uint64_t block = (first + done) / 128;
    const size_t skip = (first + done) % 128;
    const size_t count = std::min(kWords * 32 - skip, x.size() - done);
    PhiloxWords(stream, block, {words, (skip + count + 31) / 32});
    float signs[kWords * 32];
    const std::span<float> factors(signs, count);
    SelectByBits(reinterpret_cast<const uint8_t*>(words), skip, -factor, factor,
                 factors);
    for (size_t j = 0; j < count; ++j) x[done + j] *= factors[j];
    done += count;
  }
}

float InverseSqrt(size_t n) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
}

// Rotates each block of the update, calls quantise(r), which returns its scale
// and replaces each coordinate by what it is quantised to, 0 to 2^bits - 1, and
// appends all that.
template <typename Quantise>
Status EncodeBlocks(const FrameHeader& header, const EncodeOptions& options,
                    std::span<const float> update, Bytes& payload, int bits,
                    Quantise quantise) {
  const std::vector<uint32_t> segments =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  std::vector<float> rotated(update.begin(), update.end());
  std::vector<float> scales;
  size_t first = 0;
  for (uint32_t length : segments) {
    ForEachBlock(length, [&](uint64_t offset, uint64_t size) {
      const std::span<float> r =
          std::span(rotated).subspan(first + offset, size);
      // Scaling first keeps large values from overflowing the sums.
      ApplySigns(header.noise.seed, first + offset, InverseSqrt(size), r);
      Hadamard(r);
      scales.push_back(static_cast<float>(quantise(r)));
    });
    first += length;
  }
  FEDMRN_TRY(AppendSegments(segments, scales, payload));
  if (bits == 1) {
    const size_t at = payload.size();
    payload.resize(at + BytesForBits(rotated.size()));
    PackAbove(rotated, 0.5f, payload.data() + at);
  } else {
    BitWriter out(payload);
    for (float index : rotated) out.Put(static_cast<uint32_t>(index), bits);
  }
  return Ok();
}

Status EncodeDrive(FrameHeader& header, const EncodeOptions& options,
                   std::span<const float> update, Bytes& payload) {
  header.codec_param = options.unbiased ? 1 : 0;
  const auto quantise = [&](std::span<float> r) -> double {
    const double l1 = LaneSumOfMagnitudes(r);
    const double scale = l1 == 0 ? 0
                         : options.unbiased
                             ? LaneSumOfSquares(r, 0) / l1
                             : l1 / static_cast<double>(r.size());
    for (float& x : r) x = x >= 0 ? 1.0f : 0.0f;
    return scale;
  };
  return EncodeBlocks(header, options, update, payload, 1, quantise);
}

Status EncodeEden(FrameHeader& header, const EncodeOptions& options,
                  std::span<const float> update, Bytes& payload) {
  if (options.bits < 1 || options.bits > 4) {
    return Error{ErrorCode::kBadValue,
                 "eden takes 1 to 4 bits, not " + std::to_string(options.bits)};
  }
  header.codec_param = static_cast<uint32_t>(options.bits);
  const Quantiser quantiser(options.bits);
  const auto quantise = [&](std::span<float> r) -> double {
    const double squares = LaneSumOfSquares(r, 0);
    const auto size = static_cast<double>(r.size());
    const float to_normal =
        squares > 0 ? static_cast<float>(std::sqrt(size / squares)) : 0;
    double dot = 0;  // <c, r>
    if (options.bits == 1) {
      dot = double{kCentroids[0][0]} * LaneSumOfMagnitudes(r);
      for (float& x : r) x = x * to_normal > 0 ? 1.0f : 0.0f;
    } else {
      for (float& x : r) {
        const uint32_t index = quantiser.Index(x * to_normal);
        dot += double{quantiser.centroid[index]} * double{x};
        x = static_cast<float>(index);
      }
    }
    return dot > 0 ? squares / dot : 0;
  };
  return EncodeBlocks(header, options, update, payload, options.bits, quantise);
}

Result<SegmentedPayload> ReadDrive(const FrameView& frame) {
  return ReadSegments(frame, ScalePer::kBlock, BytesForBits(frame.params));
}

Result<SegmentedPayload> ReadEden(const FrameView& frame) {
  return ReadSegments(frame, ScalePer::kBlock,
                      BytesForBits(frame.params * frame.codec_param));
}

Status CheckPadding(const FrameView& frame, const SegmentedPayload& payload,
                    uint32_t bits) {
  if (!PaddingIsZero(payload.packed, frame.params * bits)) {
    return PayloadError(frame, ErrorCode::kBadFormat, frame.payload.size() - 1,
                        "bits behind the last parameter are set");
  }
  return Ok();
}

Status CheckDrive(const FrameView& frame) {
  if (frame.codec_param > 1) {
    return Error{ErrorCode::kBadValue, "drive's parameter must be 0 or 1",
                 wire::kCodecParam.offset};
  }
  return CheckPadding(frame, FEDMRN_TRY(ReadDrive(frame)), 1);
}

Status CheckEden(const FrameView& frame) {
  if (frame.codec_param < 1 || frame.codec_param > 4) {
    return Error{ErrorCode::kBadValue, "eden's bits must be 1 to 4",
                 wire::kCodecParam.offset};
  }
  return CheckPadding(frame, FEDMRN_TRY(ReadEden(frame)), frame.codec_param);
}

void DecodeBlocks(const FrameView& frame, const SegmentedPayload& payload,
                  int bits, std::span<const float> centroids,
                  std::span<float> out) {
  BitReader in(payload.packed);
  size_t first = 0;
  uint64_t scale_index = 0;
  for (uint32_t s = 0; s < payload.count; ++s) {
    ForEachBlock(payload.length(s), [&](uint64_t offset, uint64_t size) {
      const std::span<float> x = out.subspan(first + offset, size);
      if (bits == 1) {
        SelectByBits(payload.packed.data(), first + offset, centroids[0],
                     centroids[1], x);
      } else {
        for (float& value : x) value = centroids[in.Get(bits)];
      }
      Hadamard(x);
      ApplySigns(frame.noise.seed, first + offset,
                 payload.scale(scale_index++) * InverseSqrt(size), x);
    });
    first += payload.length(s);
  }
}

void DecodeDrive(const FrameView& frame, std::span<float> out) {
  constexpr float kSigns[] = {-1, 1};
  DecodeBlocks(frame, ReadDrive(frame).value(), 1, kSigns, out);
}

void DecodeEden(const FrameView& frame, std::span<float> out) {
  const int bits = static_cast<int>(frame.codec_param);
  DecodeBlocks(frame, ReadEden(frame).value(), bits, Quantiser(bits).centroid,
               out);
}

ParamText DescribeDrive(uint32_t param) {
  return {"scale", param == 0   ? "least error (0)"
                   : param == 1 ? "unbiased (1)"
                                : "unknown"};
}

ParamText DescribeEden(uint32_t param) {
  return {"bits", std::to_string(param) + " a parameter"};
}

double CountDriveOnes(const FrameView& frame) {
  return static_cast<double>(
      CountBits(ReadDrive(frame)->packed.data(), 0, frame.params));
}

constexpr PayloadFact kDriveFacts[] = {OnesFact(CountDriveOnes),
                                       kSegmentsFact<ReadDrive>,
                                       kLargestScaleFact<ReadDrive>};
constexpr PayloadFact kEdenFacts[] = {kSegmentsFact<ReadEden>,
                                      kLargestScaleFact<ReadEden>};

}  // namespace

extern const Codec kDriveCodec = {
    .id = CodecId::kDrive,
    .name = "drive",
    .summary = "signs of the rotated update, 1 bit each",
    .uses_seed = true,
    .uses_param = true,
    .encode = EncodeDrive,
    .validate = Validate<CheckDrive>,
    .decode = DecodeDrive,
    .addend = DecodedValues<DecodeDrive>,
    .describe_param = DescribeDrive,
    .facts = kDriveFacts,
};
extern const Codec kEdenCodec = {
    .id = CodecId::kEden,
    .name = "eden",
    .summary = "quantised rotated update, 1 to 4 bits",
    .uses_seed = true,
    .uses_param = true,
    .encode = EncodeEden,
    .validate = Validate<CheckEden>,
    .decode = DecodeEden,
    .addend = DecodedValues<DecodeEden>,
    .describe_param = DescribeEden,
    .facts = kEdenFacts,
};

}  // namespace fedmrn
