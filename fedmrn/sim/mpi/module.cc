// Everything that needs MPI, and the door to it.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/sim/ranks.h"

namespace fedmrn::sim {
namespace {

// MPI counts in ints; a frame may be longer than that.
constexpr size_t kPiece = size_t{1} << 24;
// A message is its size and then its bytes.
constexpr int kSizeTag = 1, kBytesTag = 2;

template <typename Byte, typename Work>
void ForEachPiece(std::span<Byte> bytes, const Work& work) {
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::span<Byte> piece =
        bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    work(piece.data(), static_cast<int>(piece.size()));
  }
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int granted = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &granted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiRanks() override {
    for (Sent& sent : sent_) {
      MPI_Waitall(static_cast<int>(sent.requests.size()), sent.requests.data(),
                  MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Send(int to, Bytes message) override {
    ForgetArrived();
    Sent& sent = sent_.emplace_back();
    sent.bytes = std::move(message);
    sent.size = sent.bytes.size();
    MPI_Isend(&sent.size, 1, MPI_UINT64_T, to, kSizeTag, MPI_COMM_WORLD,
              &sent.requests.emplace_back());
    ForEachPiece(std::span<uint8_t>(sent.bytes), [&](uint8_t* piece, int size) {
      MPI_Isend(piece, size, MPI_BYTE, to, kBytesTag, MPI_COMM_WORLD,
                &sent.requests.emplace_back());
    });
  }

  std::optional<Message> Receive() override {
    ForgetArrived();
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kSizeTag, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return std::nullopt;
    Message message;
    message.from = status.MPI_SOURCE;
    uint64_t size = 0;
    MPI_Recv(&size, 1, MPI_UINT64_T, message.from, kSizeTag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    message.bytes.resize(size);
    ForEachPiece(std::span<uint8_t>(message.bytes),
                 [&](uint8_t* piece, int bytes) {
                   MPI_Recv(piece, bytes, MPI_BYTE, message.from, kBytesTag,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                 });
    return message;
  }

  void SendToAll(ByteView bytes) override {
    ForEachPiece(bytes, [](const uint8_t* piece, int size) {
      // It reads only: this is the root.
      MPI_Bcast(const_cast<uint8_t*>(piece), size, MPI_BYTE, 0, MPI_COMM_WORLD);
    });
  }
  void ReceiveFromRoot(std::span<uint8_t> bytes) override {
    ForEachPiece(bytes, [](uint8_t* piece, int size) {
      MPI_Bcast(piece, size, MPI_BYTE, 0, MPI_COMM_WORLD);
    });
  }

  [[noreturn]] void Abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();
  }

 private:
  struct Sent {
    Bytes bytes;
    uint64_t size = 0;
    std::vector<MPI_Request> requests;
  };

  void ForgetArrived() {
    sent_.remove_if([](Sent& sent) {
      int all = 0;
      MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(),
                  &all, MPI_STATUSES_IGNORE);
      return all != 0;
    });
  }

  int rank_ = 0, size_ = 0;
  std::list<Sent> sent_;  // a list: MPI knows where they lie
};

std::unique_ptr<Ranks> Join() { return std::make_unique<MpiRanks>(); }

// It goes on with who packaged it and when.
std::string Version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data());
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace
}  // namespace fedmrn::sim

extern "C" __attribute__((visibility("default"))) const fedmrn::sim::MpiModule*
fedmrn_mpi_module() {
  static constexpr fedmrn::sim::MpiModule kModule{fedmrn::sim::Join,
                                                  fedmrn::sim::Version};
  return &kModule;
}
