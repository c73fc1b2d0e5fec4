// What ranks say to each other. They are ranks of one program, so nothing here
// is for ever but a Hello's first three texts, by which others are refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/client/client.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/crew.h"

namespace fedmrn::sim {

// The first byte of a message.
enum class Word : uint8_t {
  kHello,   // to the server: who this is
  kRound,   // to all: a broadcast of so many bytes follows
  kAsk,     // to a rank: ask this client
  kAnswer,  // to the server: what the client said
  kSteps,   // to the server: steps since the last time, for its progress
  kStop,    // to the server: this rank was told to stop (SIGTERM)
  kFailed,  // to the server: this rank cannot go on
  kEnd,     // to all: the run has ended
  kBye,     // to the server: nothing comes after this
};
Word WordOf(ByteView message);
Bytes MessageOf(Word word);

// What a rank must have in common with the server, and who it is.
struct Hello {
  std::string version;
  std::string host;
  std::string failure = {};  // why it cannot work; then the rest is empty
  std::string config = {};   // as TOML
  results::Inputs digests = {};
  std::string vector_units = {};  // train::VectorUnits
  uint32_t workers = 0;
};
Bytes MessageOf(const Hello& hello);
// Never fails: of another version's message it gives those three.
Hello ParseHello(ByteView message);
// Whether a rank would compute what the server does. The error says what
// differs and what to do; not for rounding if `mixed`.
Status CheckSame(const Hello& server, const Hello& other, int rank, bool mixed);

struct RoundMessage {
  uint32_t round = 0, attempt = 0;
  uint64_t broadcast_bytes = 0;
};
Bytes MessageOf(const RoundMessage& message);
RoundMessage ParseRound(ByteView message);

// A client's state travels with it: any rank may be asked for any client, and
// the server's copy is what checkpoints list.
struct AskMessage {
  uint32_t client = 0;
  std::vector<float> state;
};
Bytes MessageOf(const AskMessage& message);
AskMessage ParseAsk(ByteView message);

Bytes MessageOf(const Crew::Done& done);
Crew::Done ParseAnswer(Bytes message);

struct StepsMessage {
  uint64_t steps = 0, examples = 0;
};
Bytes MessageOf(const StepsMessage& message);
StepsMessage ParseSteps(ByteView message);

Bytes FailedMessage(const std::string& why);
std::string ParseFailed(ByteView message);

}  // namespace fedmrn::sim
