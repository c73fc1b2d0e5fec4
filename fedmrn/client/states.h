// What clients keep from round to round, such as what compression lost (error
// feedback) or an optimiser's moments: a flat buffer per client, most methods
// have none. It stands on the clients' side of the executor; the server never
// sees it.
//
// Each save is a file of its own, CLIENT-ROUND.state, and a checkpoint lists
// those that were current. So a run that was killed goes on from the states of
// its checkpoint, and memory does not grow with the clients.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn::client {

// Thread-safe for different clients.
class ClientStates {
 public:
  // `folder` empty: in memory only.
  explicit ClientStates(std::string folder) : folder_(std::move(folder)) {}

  // Empty if the client has none.
  Result<std::vector<float>> Load(uint32_t client) const;
  // An empty state is not saved.
  Status Save(uint32_t client, uint32_t round, const std::vector<float>& state);

  // Client and round of each current state, a line each: for checkpoints.
  std::string List() const;
  Status Restore(std::string_view list);
  // Removes the files that neither this list nor the one before it names: a
  // run keeps two checkpoints.
  void RemoveOld();
  // Of a finished run, which nobody goes on with.
  void RemoveAll();

 private:
  std::string Path(uint32_t client, uint32_t round) const;

  std::string folder_;
  mutable std::mutex mutex_;
  std::map<uint32_t, uint32_t> current_;  // client -> round
  std::map<uint32_t, uint32_t> before_;   // of the checkpoint before
  std::map<uint32_t, std::vector<float>> in_memory_;
};

}  // namespace fedmrn::client
