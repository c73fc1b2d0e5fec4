#include "fedmrn/core/wire.h"

#include <fstream>
#include <sstream>
#include <string>

#include "fedmrn/core/test_util.h"

namespace fedmrn::wire {
namespace {

struct Named {
  std::string name;
  size_t offset, end;
};

template <typename T>
Named Name(std::string name, Field<T> field) {
  return {std::move(name), field.offset, field.end()};
}

const std::vector<Named> kFields = {
    Name("magic", kMagic),
    Name("version", kVersion),
    Name("codec", kCodec),
    Name("flags", kFlags),
    Name("noise_kind", kNoiseKind),
    Name("round", kRound),
    Name("examples", kExamples),
    Name("client", kClient),
    Name("fingerprint", kFingerprint),
    Name("seed", kSeed),
    Name("params", kParams),
    Name("payload_bytes", kPayloadBytes),
    Name("plain_count", kPlainCount),
    Name("magnitude", kMagnitude),
    Name("codec_param", kCodecParam),
    Name("plain_bytes", kPlainBytes),
    Name("run", kRun),
    Name("extension_bytes", kExtensionBytes),
};

TEST(Wire, FieldsFillTheHeader) {
  size_t end = 0;
  for (const Named& field : kFields) {
    EXPECT_EQ(field.offset, end) << field.name;
    end = field.end;
  }
  EXPECT_EQ(end, kFrameHeaderBytes);
}

// The rows "| offset | type | field | meaning |" of the specification.
TEST(Wire, FieldsAreTheSpecifications) {
  std::ifstream page(FEDMRN_TESTDATA "/../docs/wire-format.md");
  const std::vector<std::pair<std::string, size_t>> types = {
      {"4 bytes", 4}, {"u8", 1}, {"u32", 4}, {"u64", 8}, {"f32", 4}};
  size_t found = 0;
  for (std::string line; std::getline(page, line) && found < kFields.size();) {
    const Named& field = kFields[found];
    for (const auto& [type, bytes] : types) {
      std::ostringstream row;
      row << "| " << field.offset << " | " << type << " | " << field.name
          << " | ";
      if (line.rfind(row.str(), 0) != 0) continue;
      EXPECT_EQ(field.offset + bytes, field.end) << line;
      ++found;
      break;
    }
  }
  EXPECT_EQ(found, kFields.size())
      << "no row of " << kFields[std::min(found, kFields.size() - 1)].name;
}

TEST(Wire, HeadersComeBack) {
  FrameHeader header;
  header.codec = CodecId::kEden;
  header.broadcast = true;
  header.plain_kind = PlainKind::kFloat16;
  header.round = 1;
  header.client = uint64_t{2} << 40;
  header.examples = 3;
  header.fingerprint = uint64_t{4} << 40;
  header.noise = {NoiseKind::kBernoulli, 0.5f, uint64_t{5} << 40};
  header.codec_param = 6;
  header.params = uint64_t{7} << 40;
  header.plain_count = 8;
  header.run = uint64_t{10} << 40;
  Bytes bytes(kFrameHeaderBytes, 0xFF);
  WriteHeader(header, 0, uint64_t{9} << 40, 11, bytes.data());
  EXPECT_TRUE(HasMagic(bytes));
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 4), "FMRN");

  const Header read = ReadHeader(bytes);
  EXPECT_EQ(read.version, kFrameVersion);
  EXPECT_EQ(read.codec, header.codec);
  EXPECT_EQ(read.flags, kPlainHalfFlag | kBroadcastFlag);
  EXPECT_TRUE(read.broadcast);
  EXPECT_EQ(read.plain_kind, PlainKind::kFloat16);
  EXPECT_EQ(read.round, header.round);
  EXPECT_EQ(read.client, header.client);
  EXPECT_EQ(read.examples, header.examples);
  EXPECT_EQ(read.fingerprint, header.fingerprint);
  EXPECT_EQ(read.noise.kind, header.noise.kind);
  EXPECT_EQ(read.noise.magnitude, header.noise.magnitude);
  EXPECT_EQ(read.noise.seed, header.noise.seed);
  EXPECT_EQ(read.codec_param, header.codec_param);
  EXPECT_EQ(read.params, header.params);
  EXPECT_EQ(read.payload_bytes, uint64_t{9} << 40);
  EXPECT_EQ(read.plain_count, header.plain_count);
  EXPECT_EQ(read.plain_bytes, 11u);
  EXPECT_EQ(read.run, header.run);
  EXPECT_EQ(read.extension_bytes, 0u);
}

TEST(Wire, LengthsDoNotWrap) {
  Header header;
  header.payload_bytes = 10;
  header.plain_bytes = 6;
  EXPECT_EQ(header.frame_bytes(), 92u + 10 + 6);
  header.version = 1;
  EXPECT_EQ(header.frame_bytes(), 80u + 10 + 6);
  constexpr uint64_t kMost = ~uint64_t{0};
  for (uint64_t payload : {kMost, kMost - 7, kMost - 85, kMost - 86}) {
    header.payload_bytes = payload;
    EXPECT_EQ(header.frame_bytes(), kMost);
  }
  header.payload_bytes = kMost - 87;
  EXPECT_EQ(header.frame_bytes(), kMost - 1);
}

TEST(Wire, MagicNeedsFourBytes) {
  const Bytes bytes = {'F', 'M', 'R', 'N'};
  EXPECT_TRUE(HasMagic(bytes));
  EXPECT_FALSE(HasMagic(ByteView(bytes).first(3)));
  EXPECT_FALSE(HasMagic({}));
}

}  // namespace
}  // namespace fedmrn::wire
