// Processes that were started together, on one machine or many, and exchange
// bytes. MPI, in a module that is opened when it is first needed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn::sim {

// One thread uses it. What goes wrong between ranks ends all of them: that is
// how MPI has it, and a run goes on with --resume.
class Ranks {
 public:
  // Waits until what was sent has been received, and for all other ranks to do
  // the same.
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Does not wait. Messages between two ranks arrive in their order.
  virtual void Send(int to, Bytes message) = 0;
  struct Message {
    int from = 0;
    Bytes bytes;
  };
  // The next message that has arrived, if there is one.
  virtual std::optional<Message> Receive() = 0;

  // Rank 0 sends to all others, each of which receives as many bytes. Waits.
  virtual void SendToAll(ByteView bytes) = 0;
  virtual void ReceiveFromRoot(std::span<uint8_t> bytes) = 0;

  // Ends all ranks at once.
  [[noreturn]] virtual void Abort(int exit_code) = 0;
};

struct MpiModule {
  // Once in a process.
  std::unique_ptr<Ranks> (*join)();
  // "Open MPI v4.1.4"
  std::string (*version)();
};

// The error says what to install.
Result<const MpiModule*> LoadMpiModule();

// How many ranks mpirun or srun has started this process as one of; 1 if it was
// started alone.
int RanksStarted();

}  // namespace fedmrn::sim
