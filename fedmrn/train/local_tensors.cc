#include "fedmrn/train/local_tensors.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "fedmrn/train/model/name_patterns.h"

namespace fedmrn::train {
namespace {

// Some neighbours in a buffer of the whole network.
struct Piece {
  size_t first, count;
};
using Pieces = std::vector<Piece>;

size_t SizeOf(const Pieces& pieces) {
  size_t size = 0;
  for (const Piece& piece : pieces) size += piece.count;
  return size;
}

// The pieces of `whole`, one after the other, in `parts`.
void Gather(const Pieces& pieces, std::span<const float> whole,
            std::span<float> parts) {
  for (const Piece& piece : pieces) {
    std::ranges::copy(whole.subspan(piece.first, piece.count), parts.begin());
    parts = parts.subspan(piece.count);
  }
}

// The way back.
void Scatter(const Pieces& pieces, std::span<const float> parts,
             std::span<float> whole) {
  for (const Piece& piece : pieces) {
    std::ranges::copy(parts.first(piece.count), whole.data() + piece.first);
    parts = parts.subspan(piece.count);
  }
}

// The whole network's two buffers, and who has which part of them.
struct Split {
  size_t coded = 0, plain = 0, trainable_plain = 0;
  Pieces shared_coded, shared_plain, local_coded, local_plain;
  Pieces shared_trainable, local_trainable;  // of the plain ones
  std::vector<float> initial;                // of the local ones
};

struct Buffers {
  std::vector<float> coded, plain;
};

// The local values are the coded ones, then the plain ones.
void Assemble(const Split& split, std::span<const float> coded,
              std::span<const float> plain, std::span<const float> local,
              Buffers& whole) {
  whole.coded.resize(split.coded);
  whole.plain.resize(split.plain);
  Scatter(split.shared_coded, coded, whole.coded);
  Scatter(split.shared_plain, plain, whole.plain);
  Scatter(split.local_coded, local, whole.coded);
  Scatter(split.local_plain, local.subspan(SizeOf(split.local_coded)),
          whole.plain);
}

class LocalLearner final : public Learner {
 public:
  LocalLearner(std::shared_ptr<const Split> split,
               std::unique_ptr<Learner> whole)
      : split_(std::move(split)), whole_(std::move(whole)) {}

  void Prepare(std::span<const uint32_t> examples,
               const PhiloxStream& draws) override {
    whole_->Prepare(examples, draws);
  }

  BatchScore Gradient(std::span<const uint32_t> examples,
                      const PhiloxStream& draws, std::span<const float> coded,
                      std::span<float> plain, std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    if (local_.values.empty()) local_.values = split_->initial;
    Assemble(*split_, coded, plain, local_.values, model_);
    gradient_.coded.resize(split_->coded);
    gradient_.plain.resize(split_->trainable_plain);
    const BatchScore score =
        whole_->Gradient(examples, draws, model_.coded, model_.plain,
                         gradient_.coded, gradient_.plain);
    const size_t local_coded = SizeOf(split_->local_coded);
    // Statistics have moved.
    Gather(split_->shared_plain, model_.plain, plain);
    Gather(split_->local_plain, model_.plain,
           std::span(local_.values).subspan(local_coded));
    Gather(split_->shared_coded, gradient_.coded, coded_gradient);
    Gather(split_->shared_trainable, gradient_.plain, plain_gradient);
    local_.gradient.resize(local_coded + SizeOf(split_->local_trainable));
    Gather(split_->local_coded, gradient_.coded, local_.gradient);
    Gather(split_->local_trainable, gradient_.plain,
           std::span(local_.gradient).subspan(local_coded));
    return score;
  }

  Score Evaluate(uint64_t first, uint32_t count, std::span<const float> coded,
                 std::span<const float> plain) override {
    Assemble(*split_, coded, plain,
             local_.values.empty() ? split_->initial : local_.values, model_);
    return whole_->Evaluate(first, count, model_.coded, model_.plain);
  }

  LocalTensors* local() override { return &local_; }

 private:
  const std::shared_ptr<const Split> split_;
  const std::unique_ptr<Learner> whole_;
  LocalTensors local_;
  Buffers model_, gradient_;
};

std::string NamesOf(const ModelLayout& layout) {
  std::string names;
  for (const TensorLayout& tensor : layout.tensors) {
    names += (names.empty() ? "" : ", ") + tensor.name;
  }
  return names;
}

}  // namespace

Result<Task> WithLocalTensors(Task task, const std::string& patterns,
                              uint64_t seed) {
  Model& model = task.model;
  const auto bad = [&](const std::string& why) {
    return Error{
        ErrorCode::kBadValue,
        "method.local: " + why + "; the network has " + NamesOf(model.layout)};
  };
  auto split = std::make_shared<Split>();
  split->trainable_plain = model.trainable_plain;
  NamePatterns chosen(patterns);
  ModelLayout shared;
  for (const TensorLayout& tensor : model.layout.tensors) {
    const bool local = chosen.Match(tensor.name, false);
    size_t& end = tensor.coded ? split->coded : split->plain;
    const Piece piece = {end, tensor.size()};
    end += piece.count;
    if (!local) shared.tensors.push_back(tensor);
    if (tensor.coded) {
      (local ? split->local_coded : split->shared_coded).push_back(piece);
      continue;
    }
    (local ? split->local_plain : split->shared_plain).push_back(piece);
    if (piece.first < split->trainable_plain) {
      (local ? split->local_trainable : split->shared_trainable)
          .push_back(piece);
    }
  }
  if (const std::string unused = chosen.Unused(); !unused.empty()) {
    return bad("no tensor has a name like '" + unused + "'");
  }
  if (shared.tensors.size() == model.layout.tensors.size()) {
    return bad("no tensor would stay");
  }
  if (split->shared_coded.empty()) return bad("no tensor would be compressed");

  Buffers initial = {std::vector<float>(split->coded),
                     std::vector<float>(split->plain)};
  model.initialize(seed, initial.coded, initial.plain);
  const size_t local_coded = SizeOf(split->local_coded);
  split->initial.resize(local_coded + SizeOf(split->local_plain));
  Gather(split->local_coded, initial.coded, split->initial);
  Gather(split->local_plain, initial.plain,
         std::span(split->initial).subspan(local_coded));

  model.layout = std::move(shared);
  model.trainable_plain = SizeOf(split->shared_trainable);
  model.local_values = split->initial.size();
  model.initialize = [split, draw = std::move(model.initialize)](
                         uint64_t of, std::span<float> coded,
                         std::span<float> plain) {
    Buffers whole = {std::vector<float>(split->coded),
                     std::vector<float>(split->plain)};
    draw(of, whole.coded, whole.plain);
    Gather(split->shared_coded, whole.coded, coded);
    Gather(split->shared_plain, whole.plain, plain);
  };
  model.torchscript = [split, write = std::move(model.torchscript)](
                          std::span<const float> coded,
                          std::span<const float> plain) {
    Buffers whole;
    Assemble(*split, coded, plain, split->initial, whole);
    return write(whole.coded, whole.plain);
  };
  model.make_network = nullptr;  // a network is whole; learners are asked
  task.make_learner = [split, make = std::move(task.make_learner)] {
    return std::make_unique<LocalLearner>(split, make());
  };
  return task;
}

}  // namespace fedmrn::train
