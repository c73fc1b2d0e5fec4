#include "fedmrn/sim/inputs.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "fedmrn/base/failure.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/train/local_tensors.h"

namespace fedmrn::sim {
namespace {

Result<std::string> Sha256OfFiles(const train::ModelSettings& model) {
  std::string digests;
  for (const std::string& path :
       {model.torchscript, model.backbone, model.init}) {
    if (path.empty()) continue;
    const Result<Bytes> file = ReadFile(path);
    if (!file) return file.error();
    digests += Sha256Hex(*file);
  }
  // One file is what sha256sum says of it.
  return digests.size() > 64 ? Sha256Hex(AsBytes(digests)) : digests;
}

Result<std::string> Sha256OfData(const train::Data& data) try {
  return train::Sha256Of(data);
} catch (const std::exception& error) {  // a file that has vanished
  return ErrorOf(error, ErrorCode::kUnavailable);
}

}  // namespace

Result<RunInputs> ReadInputs(const Config& config) {
  Result<train::Data> data = train::LoadData(config.data);
  if (!data) return data.error();
  Result<std::string> data_sha256 = Sha256OfData(*data);
  if (!data_sha256) return data_sha256.error();
  Result<Partition> partition = MakePartition(config.partition, data->labels,
                                              data->classes, data->clients);
  if (!partition) return partition.error();
  const auto clients = static_cast<uint32_t>(partition->clients());
  const bool all = config.rounds.sampling == Sampling::kAll;
  if (all && config.rounds.min_clients > clients) {
    return Error{
        ErrorCode::kBadValue,
        "rounds.min_clients is " + std::to_string(config.rounds.min_clients) +
            ", but the data has only " + std::to_string(clients) + " clients"};
  }
  if (!all && config.rounds.clients_per_round > clients) {
    return Error{ErrorCode::kBadValue,
                 "rounds.clients_per_round is " +
                     std::to_string(config.rounds.clients_per_round) +
                     ", but the data has only " + std::to_string(clients) +
                     " clients"};
  }
  Partition held_out;
  if (config.data.validation > 0) {
    held_out = FEDMRN_TRY(
        HoldOut(config.data.validation, config.partition, *partition));
    data = train::TestedOn(std::move(*data), held_out.examples);
  }
  train::ModelSettings model = config.model;
  model.threads = config.run.threads_per_client;
  Result<train::Task> task = train::MakeTask(std::move(*data), model);
  if (!task) return task.error();
  if (!config.method.local.empty()) {
    task = train::WithLocalTensors(std::move(*task), config.method.local,
                                   config.seed);
    if (!task) return task.error();
  }
  Result<std::string> model_sha256 = Sha256OfFiles(config.model);
  if (!model_sha256) return model_sha256.error();
  return RunInputs{std::move(*task),
                   std::move(*partition),
                   std::move(held_out),
                   {std::move(*data_sha256), std::move(*model_sha256)}};
}

Result<results::Inputs> DigestReader::Of(const Config& config) {
  const auto known = std::ranges::find_if(known_, [&](const Known& other) {
    return other.data == config.data && other.model == config.model;
  });
  if (known != known_.end()) return known->digests;
  const train::Data data = FEDMRN_TRY(train::LoadData(config.data));
  results::Inputs digests = {FEDMRN_TRY(Sha256OfData(data)),
                             FEDMRN_TRY(Sha256OfFiles(config.model))};
  known_.push_back({config.data, config.model, std::move(digests)});
  return known_.back().digests;
}

Status CheckSameInputs(const results::Inputs& inputs,
                       const results::Inputs& saved,
                       const std::string& folder) {
  const auto other = [&](const char* what, const std::string& was,
                         const std::string& is) {
    const auto text = [](const std::string& digest) {
      return digest.empty() ? "none" : digest.substr(0, 12);
    };
    return Error{ErrorCode::kForeign,
                 folder + " holds a run on another " + what + ": its SHA-256 " +
                     "was " + text(was) + ", now " + text(is) +
                     "\nresume with the same content, wherever it lies, or " +
                     "start anew with another --out"};
  };
  if (inputs.data_sha256 != saved.data_sha256) {
    return other("data set", saved.data_sha256, inputs.data_sha256);
  }
  if (inputs.model_file_sha256 != saved.model_file_sha256) {
    return other("model file", saved.model_file_sha256,
                 inputs.model_file_sha256);
  }
  return Ok();
}

}  // namespace fedmrn::sim
