// Clients on the ranks that mpirun or srun has started. Rank 0 is the server,
// and asks clients on its own threads as well; the other ranks follow it. A
// client goes to whichever rank is free, its state with it.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "fedmrn/sim/ask.h"
#include "fedmrn/sim/crew.h"
#include "fedmrn/sim/executor.h"
#include "fedmrn/sim/rank_messages.h"
#include "fedmrn/sim/ranks.h"
#include "fedmrn/train/kernels/vector_units.h"

namespace fedmrn::sim {
namespace {

std::string Host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Hello HelloOf(const ExecutorParts& parts) {
  return {parts.version,
          Host(),
          /*failure=*/"",
          ConfigToml(parts.config),
          parts.digests,
          train::VectorUnits(),
          static_cast<uint32_t>(parts.workers.count())};
}

// Waits a little longer each time that nothing has happened, so that a rank
// that waits leaves its core to clients.
class Patience {
 public:
  void Wait() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, kLongest);
  }
  void Renew() { pause_ = kShortest; }

 private:
  using Microseconds = std::chrono::microseconds;
  static constexpr Microseconds kShortest{20}, kLongest{1000};
  Microseconds pause_ = kShortest;
};

class MpiExecutor final : public Executor {
 public:
  // `slots`: of each rank, the clients that it can ask at the same time.
  MpiExecutor(Ranks& ranks, const ExecutorParts& parts,
              std::vector<uint32_t> slots)
      : ranks_(ranks), parts_(parts), ask_(AskOf(parts)), slots_(slots) {
    parts_.progress.ranks = static_cast<uint32_t>(ranks.size());
  }

  Status Execute(const RoundOrder& order, const OnAnswer& on_answer,
                 const std::atomic<bool>& stop) override {
    const std::vector<uint32_t> clients = LongestFirst(parts_, order);
    const Bytes round = MessageOf(
        RoundMessage{order.round, order.attempt, order.broadcast.size()});
    for (int rank = 1; rank < ranks_.size(); ++rank) ranks_.Send(rank, round);
    ranks_.SendToAll(order.broadcast);

    std::deque<uint32_t> waiting(clients.begin(), clients.end());
    std::vector<std::set<uint32_t>> asked(slots_.size());  // of each rank
    // A rank has its next client before its last answer is added, which takes
    // a while where models are large: so two may be here, one of them rank 0's.
    std::vector<Crew::Done> arrived;
    size_t missing = clients.size();
    Progress& progress = parts_.progress;
    const auto answered = [&](int rank, Crew::Done done) -> Status {
      if (asked[rank].erase(done.client) == 0) {
        return Error{ErrorCode::kFailed,
                     "rank " + std::to_string(rank) + " answers for client " +
                         std::to_string(done.client) + " unasked"};
      }
      FEDMRN_TRY(CheckMachine(order, done.client, done.answer));
      --progress.clients_under_way;
      arrived.push_back(std::move(done));
      return Ok();
    };

    progress.clients_under_way = 0;
    Crew crew(parts_.workers);  // the last: its jobs use what is above
    for (Patience patience; missing > 0;) {
      if (stop) return Error{ErrorCode::kStopped, "stopped"};
      while (!waiting.empty()) {
        const int rank = Freest(asked);
        if (rank < 0) break;
        const uint32_t client = waiting.front();
        waiting.pop_front();
        asked[rank].insert(client);
        ++progress.clients_under_way;
        if (rank == 0) {
          crew.Give([&, client](client::Bench& bench) {
            return Crew::Done{client,
                              ask_(client, order, parts_.states, bench, stop)};
          });
          continue;
        }
        Result<std::vector<float>> state = parts_.states.Load(client);
        if (state) {
          ranks_.Send(rank, MessageOf(AskMessage{client, *std::move(state)}));
        } else {
          FEDMRN_TRY(answered(rank, {client, state.error()}));
        }
      }
      bool idle = arrived.empty();
      for (Crew::Done& done : arrived) {
        on_answer(done.client, std::move(done.answer));
      }
      missing -= arrived.size();
      arrived.clear();
      if (std::optional<Ranks::Message> message = ranks_.Receive()) {
        idle = false;
        if (WordOf(message->bytes) == Word::kAnswer) {
          Crew::Done done = ParseAnswer(std::move(message->bytes));
          if (done.answer) {
            const Status kept = parts_.states.Keep(done.client, order.round,
                                                   std::move(done.state));
            if (!kept) done.answer = kept.error();
          }
          FEDMRN_TRY(answered(message->from, std::move(done)));
        } else {
          FEDMRN_TRY(Hear(*message));
        }
      }
      if (std::optional<Crew::Done> done = crew.Take()) {
        idle = false;
        if (!stop) FEDMRN_TRY(answered(0, *std::move(done)));
      }
      if (const std::string failure = crew.failure(); !failure.empty()) {
        return Error{ErrorCode::kFailed, "the threads failed: " + failure};
      }
      if (idle) {
        patience.Wait();
      } else {
        patience.Renew();
      }
    }
    return Ok();
  }

  Status Commit(uint32_t round, std::span<const uint32_t> clients) override {
    parts_.states.Commit(round, clients);
    return Ok();
  }

 private:
  // The rank that can take most clients more, of several the last, since the
  // first has the server to run; -1 if none can.
  int Freest(const std::vector<std::set<uint32_t>>& asked) const {
    int freest = -1;
    size_t most = 1;
    for (size_t rank = 0; rank < slots_.size(); ++rank) {
      const size_t free = slots_[rank] - asked[rank].size();
      if (free >= most) {
        freest = static_cast<int>(rank);
        most = free;
      }
    }
    return freest;
  }

  // Whatever a rank says that is no answer.
  Status Hear(const Ranks::Message& message) {
    switch (WordOf(message.bytes)) {
      case Word::kSteps: {
        const StepsMessage steps = ParseSteps(message.bytes);
        parts_.progress.steps_done += steps.steps;
        parts_.progress.examples_trained += steps.examples;
        return Ok();
      }
      case Word::kStop:
        parts_.progress.stop = true;
        return Ok();
      case Word::kFailed:
        return Error{ErrorCode::kFailed,
                     "rank " + std::to_string(message.from) +
                         " failed: " + ParseFailed(message.bytes)};
      default:
        return Error{
            ErrorCode::kFailed,
            "rank " + std::to_string(message.from) + " is out of step"};
    }
  }

  Ranks& ranks_;
  const ExecutorParts parts_;
  const Ask ask_;
  const std::vector<uint32_t> slots_;
};

// What a rank that is not the server does with its messages.
class Follower {
 public:
  Follower(Ranks& ranks, const ExecutorParts& parts)
      : ranks_(ranks),
        parts_(parts),
        ask_(AskOf(parts)),
        crew_(std::make_unique<Crew>(parts.workers)) {}

  // Until the server has ended the run.
  void Work() {
    std::atomic<bool>& stop = parts_.progress.stop;
    bool told = false;  // the server that this rank is to stop, or has failed
    for (Patience patience;;) {
      bool idle = true;
      if (const std::optional<Ranks::Message> message = ranks_.Receive()) {
        idle = false;
        if (WordOf(message->bytes) == Word::kEnd) break;
        Obey(message->bytes);
      }
      if (const std::optional<Crew::Done> done = crew_->Take()) {
        idle = false;
        TellSteps();  // before the answer, as they belong to its round
        // Nobody must count the answer of a client that was stopped.
        if (!stop) ranks_.Send(0, MessageOf(*done));
      }
      if (!told && stop) {
        told = true;
        ranks_.Send(0, MessageOf(Word::kStop));
      }
      if (const std::string failure = crew_->failure();
          !told && !failure.empty()) {
        told = true;
        ranks_.Send(0, FailedMessage(failure));
      }
      const auto now = std::chrono::steady_clock::now();
      if (now - told_at_ > std::chrono::milliseconds(200)) TellSteps();
      if (idle) {
        patience.Wait();
      } else {
        patience.Renew();
      }
    }
    stop = true;
    crew_.reset();
  }

 private:
  void Obey(ByteView message) {
    if (WordOf(message) == Word::kRound) {
      const RoundMessage round = ParseRound(message);
      broadcast_.resize(round.broadcast_bytes);
      ranks_.ReceiveFromRoot(broadcast_);
      order_ = {round.round, round.attempt, {}, broadcast_};
      return;
    }
    FEDMRN_CHECK(WordOf(message) == Word::kAsk);
    crew_->Give([this, ask = ParseAsk(message)](client::Bench& bench) {
      // Its states are one client's, for as long as it is asked.
      client::States states("");
      const std::array<uint32_t, 1> client = {ask.client};
      FEDMRN_CHECK(states.Keep(ask.client, 0, ask.state).ok());
      states.Commit(0, client);
      Result<client::Answer> answer =
          ask_(ask.client, order_, states, bench, parts_.progress.stop);
      states.Commit(order_.round, client);
      return Crew::Done{ask.client, std::move(answer),
                        states.Load(ask.client).value()};
    });
  }

  void TellSteps() {
    told_at_ = std::chrono::steady_clock::now();
    const StepsMessage steps = {
        parts_.progress.steps_done - told_.steps,
        parts_.progress.examples_trained - told_.examples};
    if (steps.steps == 0) return;
    told_.steps += steps.steps;
    told_.examples += steps.examples;
    ranks_.Send(0, MessageOf(steps));
  }

  Ranks& ranks_;
  const ExecutorParts parts_;
  const Ask ask_;
  Bytes broadcast_;
  RoundOrder order_;  // the same for all clients at work
  StepsMessage told_;
  std::chrono::steady_clock::time_point told_at_;
  std::unique_ptr<Crew> crew_;  // the last: its jobs use what is above
};

class MpiTeam final : public Team {
 public:
  explicit MpiTeam(std::unique_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}

  ~MpiTeam() override {
    if (leads()) {
      for (int rank = 1; rank < ranks_->size(); ++rank) {
        ranks_->Send(rank, MessageOf(Word::kEnd));
      }
      WaitFor(Word::kBye, [](const Ranks::Message&) {});
    } else if (!ended_) {
      ranks_->Abort(1);  // an exception: nobody else would hear of it
    }
  }

  uint32_t size() const override {
    return static_cast<uint32_t>(ranks_->size());
  }
  bool leads() const override { return ranks_->rank() == 0; }

  Result<std::unique_ptr<Executor>> MakeExecutor(
      const ExecutorParts& parts) override {
    const Hello mine = HelloOf(parts);
    // What answers instead of clients must not count as the server's work.
    std::vector<uint32_t> slots(ranks_->size(), parts.ask ? 0 : mine.workers);
    std::vector<Hello> hellos(ranks_->size());
    WaitFor(Word::kHello, [&](const Ranks::Message& message) {
      hellos[message.from] = ParseHello(message.bytes);
    });
    for (int rank = 1; rank < ranks_->size(); ++rank) {
      const Hello& other = hellos[rank];
      FEDMRN_TRY(CheckSame(mine, other, rank, parts.mixed));
      if (other.vector_units != mine.vector_units) {
        parts.log("rank " + std::to_string(rank) + " (" + other.host +
                  ") computes with " + other.vector_units + ", rank 0 with " +
                  mine.vector_units +
                  ": the model is not the same to the bit "
                  "as on CPUs of one kind");
      }
      slots[rank] = other.workers;
    }
    const uint32_t clients = parts.config.rounds.clients_per_round;
    if (slots.size() > clients) {
      parts.log(std::to_string(slots.size()) + " ranks for " +
                std::to_string(clients) +
                " clients a round: the others have nothing to do");
    }
    return std::unique_ptr<Executor>(
        std::make_unique<MpiExecutor>(*ranks_, parts, std::move(slots)));
  }

  Status Follow(const ExecutorParts& parts) override {
    ranks_->Send(0, MessageOf(HelloOf(parts)));
    Follower(*ranks_, parts).Work();
    SayBye();
    return Ok();
  }

  void Refuse(const Error& error) override {
    ranks_->Send(
        0, MessageOf(Hello{
               .version = "", .host = Host(), .failure = error.ToString()}));
    for (Patience patience;; patience.Wait()) {
      const std::optional<Ranks::Message> message = ranks_->Receive();
      if (message && WordOf(message->bytes) == Word::kEnd) break;
    }
    SayBye();
  }

 private:
  void SayBye() {
    ranks_->Send(0, MessageOf(Word::kBye));
    ended_ = true;
  }

  // Until each other rank has said so; anything else is dropped.
  void WaitFor(Word word,
               const std::function<void(const Ranks::Message&)>& hear) {
    int missing = ranks_->size() - 1;
    for (Patience patience; missing > 0;) {
      const std::optional<Ranks::Message> message = ranks_->Receive();
      if (!message) {
        patience.Wait();
        continue;
      }
      patience.Renew();
      if (WordOf(message->bytes) != word) continue;
      hear(*message);
      --missing;
    }
  }

  std::unique_ptr<Ranks> ranks_;
  bool ended_ = false;  // the server has said so, and this rank bye
};

Result<std::unique_ptr<Team>> GatherRanks() {
  const MpiModule* const mpi = FEDMRN_TRY(LoadMpiModule());
  std::unique_ptr<Ranks> ranks = mpi->join();
  if (ranks->size() == 1) {
    return Error{ErrorCode::kBadValue,
                 "the executor mpi needs two ranks or more: mpirun -n 2 fedmrn "
                 "..., or under Slurm srun --mpi=pmix -n 2 fedmrn ...; on one "
                 "machine --executor threads uses all cores"};
  }
  return std::unique_ptr<Team>(std::make_unique<MpiTeam>(std::move(ranks)));
}

}  // namespace

const ExecutorRow kMpiExecutor = {"mpi", "ranks of mpirun or srun",
                                  [] { return RanksStarted() > 1; },
                                  GatherRanks};

}  // namespace fedmrn::sim
