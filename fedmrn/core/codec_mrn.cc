// mrn-binary and mrn-signed: FedMRN's own. The payload is the final mask,
// either one bit a parameter or, codec_param 1, entropy-coded (coded_mask.h);
// the noise is named in the header. Encoding an update that was trained without
// masking is the paper's "FedAvg w. SM".
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/mask.h"

namespace fedmrn {
namespace {

constexpr uint32_t kPlainBits = 0, kCoded = 1;

template <MaskKind kKind>
Status Encode(FrameHeader& header, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  const std::vector<uint32_t> tensors =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  const Masking masking{.kind = kKind,
                        .stochastic = options.stochastic,
                        .progressive = false,
                        .noise = header.noise};
  Bytes bits(BytesForBits(update.size()));
  FinalMask(masking, update, bits);
  if (options.entropy) {
    const size_t at = payload.size();
    AppendCodedMask(kKind, header.noise, tensors, bits, payload);
    if (payload.size() - at < bits.size()) {
      header.codec_param = kCoded;
      return Ok();
    }
    payload.resize(at);
  }
  header.codec_param = kPlainBits;
  payload.insert(payload.end(), bits.begin(), bits.end());
  return Ok();
}

template <MaskKind kKind>
Status CheckMask(FrameView& frame, Bytes* scratch) {
  if (frame.codec_param == kPlainBits) return CheckPackedBits(frame);
  if (frame.codec_param != kCoded || frame.version == 1) {
    return Error{ErrorCode::kBadValue,
                 "a mask's coding is 0 or 1, and 0 in version 1",
                 wire::kCodecParam.offset};
  }
  if (scratch != nullptr) scratch->resize(BytesForBits(frame.params));
  const std::span<uint8_t> bits =
      scratch != nullptr ? std::span<uint8_t>(*scratch) : std::span<uint8_t>();
  const Result<uint64_t> ones =
      DecodeMask(kKind, frame.noise, frame.params, frame.payload, bits);
  frame.unpacked = bits;
  if (ones) return Ok();
  return PayloadError(frame, ones.error().code, ones.error().offset,
                      ones.error().message);
}

// The mask's packed bits, in the frame or in `scratch`.
template <MaskKind kKind>
ByteView MaskBits(const FrameView& frame, Bytes& scratch) {
  if (frame.codec_param == kPlainBits) return frame.payload;
  if (!frame.unpacked.empty()) return frame.unpacked;
  scratch.resize(BytesForBits(frame.params));
  (void)DecodeMask(kKind, frame.noise, frame.params, frame.payload, scratch)
      .value();
  return scratch;
}

template <MaskKind kKind>
void Decode(const FrameView& frame, std::span<float> out) {
  Bytes scratch;
  const ByteView bits = MaskBits<kKind>(frame, scratch);
  NoiseValues(frame.noise, 0, out);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!TestBit(bits.data(), i)) {
      out[i] = kKind == MaskKind::kBinary ? 0 : -out[i];
    }
  }
}

ParamText DescribeCoding(uint32_t param) {
  return {"coding", param == kPlainBits ? "one bit a parameter"
                    : param == kCoded   ? "entropy-coded"
                                        : "unknown"};
}

template <MaskKind kKind>
constexpr PayloadFact kFacts[] = {
    {"ones", "share of ones", PayloadFact::Kind::kParams,
     [](const FrameView& frame) {
       if (frame.codec_param == kPlainBits) return CountOnes(frame);
       return static_cast<double>(
           DecodeMask(kKind, frame.noise, frame.params, frame.payload, {})
               .value());
     }},
    {"segments", "segments", PayloadFact::Kind::kCount,
     [](const FrameView& frame) {
       return frame.codec_param == kPlainBits
                  ? 1.0
                  : static_cast<double>(CodedTensors(frame.payload));
     }}};

template <MaskKind kKind>
constexpr Codec Row(CodecId id, std::string_view name,
                    std::string_view summary) {
  return {.id = id,
          .name = name,
          .summary = summary,
          .uses_noise = true,
          .uses_seed = true,
          .uses_param = true,
          .encode = Encode<kKind>,
          .validate = CheckMask<kKind>,
          .decode = Decode<kKind>,
          .mask = kKind,
          .addend = MaskBits<kKind>,
          .describe_param = DescribeCoding,
          .facts = kFacts<kKind>};
}

}  // namespace

extern const Codec kMrnBinaryCodec = Row<MaskKind::kBinary>(
    CodecId::kMrnBinary, "mrn-binary",
    "noise kept or dropped, at most 1 bit each (FedMRN)");
extern const Codec kMrnSignedCodec = Row<MaskKind::kSigned>(
    CodecId::kMrnSigned, "mrn-signed",
    "noise kept or flipped, at most 1 bit each (FedMRNS)");

}  // namespace fedmrn
