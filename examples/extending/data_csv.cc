// A data set: a file of comma-separated numbers, an example per line, its class
// last. Every tenth line is a test example.
#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "mine.h"

namespace mine {
namespace {

struct Rows {
  std::vector<float> x;  // all inputs, one example after the other
  std::vector<uint16_t> labels;
};

void AddTo(train::Batch& batch, const Rows& from, size_t example,
           size_t inputs) {
  const auto x = from.x.begin() + static_cast<ptrdiff_t>(example * inputs);
  batch.x.insert(batch.x.end(), x, x + static_cast<ptrdiff_t>(inputs));
  batch.labels.push_back(from.labels[example]);
  batch.shape = {++batch.examples, static_cast<int64_t>(inputs)};
}

}  // namespace

Result<train::Data> LoadCsv(const train::DataSet& set,
                            const train::DataSettings& settings) {
  std::ifstream file(settings.path);
  const auto bad = [&](const std::string& what) {
    return Error{ErrorCode::kBadValue, settings.path + ": " + what};
  };
  if (!file) return bad("cannot be read; data.path names the file");
  const auto train = std::make_shared<Rows>();
  const auto test = std::make_shared<Rows>();
  size_t inputs = 0, line_number = 0;
  train::Data data;
  for (std::string line; std::getline(file, line);) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    std::vector<float> numbers;
    for (float number; fields >> number;) numbers.push_back(number);
    const std::string where = "line " + std::to_string(++line_number);
    if (!fields.eof() || numbers.size() < 2) return bad(where + " is no row");
    if (inputs == 0) inputs = numbers.size() - 1;
    if (numbers.size() != inputs + 1) return bad(where + " differs in length");
    if (!(numbers.back() >= 0 && numbers.back() < 1000)) {
      return bad(where + " has no class from 0 to 999");
    }
    Rows& part = line_number % 10 == 0 ? *test : *train;
    part.labels.push_back(static_cast<uint16_t>(numbers.back()));
    part.x.insert(part.x.end(), numbers.begin(), numbers.end() - 1);
    data.classes = std::max<uint32_t>(data.classes, part.labels.back() + 1u);
  }
  if (test->labels.empty()) return bad("has fewer than ten rows");

  data.name = set.name;
  data.input = train::Input::kNumbers;
  data.target = train::Target::kClass;
  data.shape = {static_cast<int64_t>(inputs)};
  data.train_examples = train->labels.size();
  data.test_examples = test->labels.size();
  data.labels = train->labels;  // what partitions look at
  data.train_batch = [train, inputs](std::span<const uint32_t> examples,
                                     const PhiloxStream&, train::Batch& batch) {
    batch = {};
    for (const uint32_t i : examples) AddTo(batch, *train, i, inputs);
  };
  data.test_batch = [test, inputs](uint64_t first, uint32_t count,
                                   train::Batch& batch) {
    batch = {};
    for (uint32_t i = 0; i < count; ++i) AddTo(batch, *test, first + i, inputs);
  };
  return data;
}

}  // namespace mine
