#include "fedmrn/train/task.h"

#include <algorithm>
#include <deque>
#include <future>
#include <utility>

#include "fedmrn/train/model/initial.h"

namespace fedmrn::train {
namespace {

// Batches of the data through one network.
class TaskLearner final : public Learner {
 public:
  TaskLearner(std::shared_ptr<const Data> data,
              std::unique_ptr<Network> network)
      : data_(std::move(data)), network_(std::move(network)) {}

  void Prepare(std::span<const uint32_t> examples,
               const PhiloxStream& draws) override {
    if (!data_->prepare_ahead) return;
    Ahead& next = ahead_.emplace_back();
    next.examples.assign(examples.begin(), examples.end());
    next.draws = draws;
    // The future joins the thread, so it outlives nothing of ours.
    next.batch = std::async(std::launch::async, [data = data_.get(), draws,
                                                 chosen = next.examples] {
      Batch batch;
      data->train_batch(chosen, draws, batch);
      return batch;
    });
  }

  BatchScore Gradient(std::span<const uint32_t> examples,
                      const PhiloxStream& draws, std::span<const float> coded,
                      std::span<float> plain, std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    // What stands before it was announced by work that ended early.
    while (!ahead_.empty() && !ahead_.front().Is(examples, draws)) {
      ahead_.pop_front();
    }
    if (!ahead_.empty()) {
      batch_ = ahead_.front().batch.get();
      ahead_.pop_front();
    } else {
      data_->train_batch(examples, draws, batch_);
    }
    return network_->Gradient(batch_,
                              {draws.seed, Purpose::kDropout, draws.sub}, coded,
                              plain, coded_gradient, plain_gradient);
  }

  Score Evaluate(uint64_t first, uint32_t count, std::span<const float> coded,
                 std::span<const float> plain) override {
    Score score;
    while (count > 0) {
      const uint32_t now = std::min(count, data_->largest_test_batch);
      data_->test_batch(first, now, batch_);
      score.Add(network_->Evaluate(batch_, coded, plain));
      first += now;
      count -= now;
    }
    return score;
  }

 private:
  struct Ahead {
    std::vector<uint32_t> examples;
    PhiloxStream draws;
    std::future<Batch> batch;

    bool Is(std::span<const uint32_t> wanted, const PhiloxStream& by) const {
      return std::ranges::equal(wanted, examples) && by.seed == draws.seed &&
             by.purpose == draws.purpose && by.sub == draws.sub;
    }
  };

  std::shared_ptr<const Data> data_;
  std::unique_ptr<Network> network_;
  std::deque<Ahead> ahead_;
  Batch batch_;
};

}  // namespace

Result<Task> MakeTask(const DataSettings& settings,
                      const ModelSettings& model) {
  Result<Data> data = LoadData(settings);
  if (!data) return data.error();
  return MakeTask(std::move(*data), model);
}

Result<Task> MakeTask(Data data, const ModelSettings& settings) {
  const ModelRow* row = FindModel(settings.name);
  if (row == nullptr) {
    return Error{ErrorCode::kBadValue,
                 "model '" + settings.name + "' is not known"};
  }
  Result<Model> model = row->make(settings, data);
  if (!model) return model.error();
  model->threads = settings.threads;
  if (!settings.init.empty()) {
    FEDMRN_TRY(StartFrom(settings.init, *model, data.notes));
  }
  return TaskOf(std::move(data), std::move(*model));
}

Task TaskOf(Data data, Model model) {
  Task task;
  task.data = std::make_shared<const Data>(std::move(data));
  task.model = std::move(model);
  task.make_learner = [data = task.data, make = task.model.make_network] {
    return std::make_unique<TaskLearner>(data, make());
  };
  return task;
}

}  // namespace fedmrn::train
