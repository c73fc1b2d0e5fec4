// What clients keep from round to round, such as what compression lost (error
// feedback) or an optimiser's moments: a flat buffer per client, most methods
// have none. It stands on the clients' side of the executor; the server never
// sees it.
//
// A state is made valid in two phases. A client keeps the state that belongs to
// its answer; it becomes the client's state when the round has counted that
// answer (Commit). If the frame was damaged or refused, or the whole sample was
// too small, the client goes on from the state before: error feedback must not
// forget what never arrived.
//
// What goes wrong here is kFailed: a state that cannot be read or written is
// this machine's loss, and no client's.
//
// Each state is a file of its own, CLIENT-ROUND.state, and a checkpoint lists
// those that were valid. So a run that was killed goes on from the states of
// its checkpoint, and memory does not grow with the clients.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn::client {

// Thread-safe for different clients.
class States {
 public:
  // `folder` empty: in memory only; else it is made when it is needed, in one
  // that is there.
  explicit States(std::string folder) : folder_(std::move(folder)) {}

  // The client's valid state; empty if it has none.
  Result<std::vector<float>> Load(uint32_t client) const;
  // What it has kept last and nobody has committed, or else its valid state.
  Result<std::vector<float>> LoadKept(uint32_t client) const;
  // Keeps what the client's answer in this round leaves behind, in place of
  // what it kept and never committed. An empty state is not kept.
  Status Keep(uint32_t client, uint32_t round, std::vector<float> state);
  // What these clients kept in this round is valid from now on; all else that
  // was kept is forgotten.
  void Commit(uint32_t round, std::span<const uint32_t> clients);

  // Client and round of each valid state, a line each: for checkpoints.
  std::string List() const;
  Status Restore(std::string_view list);
  // Removes the files that neither this list nor the one before it names: a
  // run keeps two checkpoints.
  void RemoveOld();
  // For a finished run, which nobody goes on with.
  void RemoveAll();

 private:
  std::string Path(uint32_t client, uint32_t round) const;
  Result<std::vector<float>> Read(uint32_t client, uint32_t round) const;
  Status Write(uint32_t client, uint32_t round,
               std::span<const float> state) const;

  std::string folder_;
  mutable std::mutex mutex_;
  // Client -> round.
  std::map<uint32_t, uint32_t> valid_;
  std::map<uint32_t, uint32_t> kept_;    // not yet committed
  std::map<uint32_t, uint32_t> before_;  // valid in the checkpoint before
  // Without a folder: the states themselves.
  std::map<uint32_t, std::vector<float>> valid_states_, kept_states_;
};

}  // namespace fedmrn::client
