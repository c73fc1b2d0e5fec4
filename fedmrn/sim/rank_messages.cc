#include "fedmrn/sim/rank_messages.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "fedmrn/base/files.h"
#include "fedmrn/sim/run.h"

namespace fedmrn::sim {
namespace {

void PutText(std::string_view text, Bytes& to) {
  AppendLe(static_cast<uint64_t>(text.size()), to);
  const ByteView bytes = AsBytes(text);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void PutFloats(std::span<const float> values, Bytes& to) {
  AppendLe(static_cast<uint64_t>(values.size()), to);
  AppendLe(values, to);
}

// Past the end it gives zeros and empty texts.
class Reader {
 public:
  explicit Reader(ByteView message) : rest_(message.subspan(1)) {}

  template <typename T>
  T Get() {
    T value{};
    const ByteView bytes = Take(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string Text() { return std::string(AsText(Take(Get<uint64_t>()))); }
  std::vector<float> Floats() {
    const auto count = Get<uint64_t>();
    if (count > rest_.size() / sizeof(float)) return {};
    std::vector<float> values(count);
    const ByteView bytes = Take(count * sizeof(float));
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  ByteView rest() const { return rest_; }

 private:
  ByteView Take(uint64_t size) {
    if (size > rest_.size()) return rest_ = {};
    const ByteView taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  ByteView rest_;
};

std::string Digest(const std::string& sha256) {
  return sha256.empty() ? "none" : sha256.substr(0, 12);
}

}  // namespace

Word WordOf(ByteView message) {
  FEDMRN_CHECK(!message.empty());
  return static_cast<Word>(message[0]);
}

Bytes MessageOf(Word word) { return {static_cast<uint8_t>(word)}; }

Bytes MessageOf(const Hello& hello) {
  Bytes message = MessageOf(Word::kHello);
  for (const std::string* text :
       {&hello.version, &hello.host, &hello.failure, &hello.config,
        &hello.digests.data_sha256, &hello.digests.model_file_sha256,
        &hello.vector_units}) {
    PutText(*text, message);
  }
  AppendLe(hello.workers, message);
  return message;
}

Hello ParseHello(ByteView message) {
  Reader reader(message);
  Hello hello;
  for (std::string* text :
       {&hello.version, &hello.host, &hello.failure, &hello.config,
        &hello.digests.data_sha256, &hello.digests.model_file_sha256,
        &hello.vector_units}) {
    *text = reader.Text();
  }
  hello.workers = reader.Get<uint32_t>();
  return hello;
}

Status CheckSame(const Hello& server, const Hello& other, int rank,
                 bool mixed) {
  const std::string who = fmt::format("rank {} ({})", rank, other.host);
  const auto foreign = [&](std::string what) {
    return Error{ErrorCode::kForeign, who + std::move(what)};
  };
  if (!other.failure.empty()) return foreign(": " + other.failure);
  if (other.version != server.version) {
    return foreign(fmt::format(
        " runs fedmrn {}, rank 0 ({}) runs {}; start all ranks with the same "
        "program",
        other.version, server.host, server.version));
  }
  const Config mine = FEDMRN_TRY(ParseConfig(server.config, "rank 0", {}));
  const Config its = FEDMRN_TRY(ParseConfig(other.config, who, {}));
  std::string differences;
  for (const KeyDifference& key : DifferencesOf(mine, its)) {
    differences += fmt::format("\n  {}: {} there, {} at rank 0", key.name,
                               key.second, key.first);
  }
  if (!differences.empty()) {
    return foreign(" has another config:" + differences +
                   "\nstart all ranks with the same command");
  }
  const auto other_files = [&](const char* what, const std::string& there,
                               const std::string& here) {
    return foreign(
        fmt::format(" has another {}: its SHA-256 is {}, that of rank 0 ({}) "
                    "{}; give all ranks the same files",
                    what, Digest(there), server.host, Digest(here)));
  };
  const results::Inputs &here = server.digests, &there = other.digests;
  if (there.data_sha256 != here.data_sha256) {
    return other_files("data set", there.data_sha256, here.data_sha256);
  }
  if (there.model_file_sha256 != here.model_file_sha256) {
    return other_files("model file", there.model_file_sha256,
                       here.model_file_sha256);
  }
  if (!mixed && other.vector_units != server.vector_units) {
    return foreign(fmt::format(
        " computes with {}, rank 0 ({}) with {}: sums are rounded "
        "differently. Choose one target that all CPUs have, such as "
        "FEDMRN_SIMD=AVX2 (mpirun -x FEDMRN_SIMD=AVX2 ...), or accept with "
        "--mixed a model that is not the same to the bit",
        other.vector_units, server.host, server.vector_units));
  }
  return Ok();
}

Bytes MessageOf(const RoundMessage& round) {
  Bytes message = MessageOf(Word::kRound);
  AppendLe(round.round, message);
  AppendLe(round.attempt, message);
  AppendLe(round.broadcast_bytes, message);
  return message;
}

RoundMessage ParseRound(ByteView message) {
  Reader reader(message);
  RoundMessage round;
  round.round = reader.Get<uint32_t>();
  round.attempt = reader.Get<uint32_t>();
  round.broadcast_bytes = reader.Get<uint64_t>();
  return round;
}

Bytes MessageOf(const AskMessage& ask) {
  Bytes message = MessageOf(Word::kAsk);
  AppendLe(ask.client, message);
  PutFloats(ask.state, message);
  return message;
}

AskMessage ParseAsk(ByteView message) {
  Reader reader(message);
  AskMessage ask;
  ask.client = reader.Get<uint32_t>();
  ask.state = reader.Floats();
  return ask;
}

Bytes MessageOf(const Crew::Done& done) {
  Bytes message = MessageOf(Word::kAnswer);
  AppendLe(done.client, message);
  AppendLe(static_cast<uint8_t>(done.answer.ok()), message);
  if (!done.answer) {
    AppendLe(static_cast<uint8_t>(done.answer.error().code), message);
    PutText(done.answer.error().ToString(), message);
    return message;
  }
  AppendLe(done.answer->train_s, message);
  AppendLe(done.answer->encode_s, message);
  AppendLe(done.answer->train_loss, message);
  AppendLe(done.answer->train_score, message);
  PutFloats(done.state, message);
  const Bytes& frame = done.answer->frame;
  message.insert(message.end(), frame.begin(), frame.end());
  return message;
}

Crew::Done ParseAnswer(Bytes message) {
  Reader reader(message);
  const auto client = reader.Get<uint32_t>();
  if (reader.Get<uint8_t>() == 0) {
    const auto code = static_cast<ErrorCode>(reader.Get<uint8_t>());
    return {client, Error{code, reader.Text()}};
  }
  client::Answer answer;
  answer.train_s = reader.Get<double>();
  answer.encode_s = reader.Get<double>();
  answer.train_loss = reader.Get<double>();
  answer.train_score = reader.Get<double>();
  std::vector<float> state = reader.Floats();
  // The frame in the message's own memory: the server holds one, not two.
  const auto head = message.size() - reader.rest().size();
  message.erase(message.begin(), message.begin() + static_cast<long>(head));
  answer.frame = std::move(message);
  return {client, std::move(answer), std::move(state)};
}

Bytes MessageOf(const StepsMessage& steps) {
  Bytes message = MessageOf(Word::kSteps);
  AppendLe(steps.steps, message);
  AppendLe(steps.examples, message);
  return message;
}

StepsMessage ParseSteps(ByteView message) {
  Reader reader(message);
  StepsMessage steps;
  steps.steps = reader.Get<uint64_t>();
  steps.examples = reader.Get<uint64_t>();
  return steps;
}

Bytes FailedMessage(const std::string& why) {
  Bytes message = MessageOf(Word::kFailed);
  PutText(why, message);
  return message;
}

std::string ParseFailed(ByteView message) { return Reader(message).Text(); }

}  // namespace fedmrn::sim
