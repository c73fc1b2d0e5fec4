// The user's own arrays, in an .npz file of NumPy: x, y and, for data that
// comes with its clients, client (a number or a name per example; names are
// numbered in their order).
//
//   x  uint8 (n, h, w) or (n, h, w, 1 or 3)   images, as shares of 255
//      other integers (n, ...)                tokens
//      floats (n, ...)                        numbers
//   y  integers (n,) or (n, 1)                classes
//      integers (n, h, w), of images          classes of pixels; 255: none
//      floats (n, ...)                        numbers
//
// docs/data.md tells it to users.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/train/data/npz_file.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr int64_t kMaxClasses = 65535;
constexpr int64_t kNoClassInFile = 255;  // of a pixel

struct Kind {
  Input input;
  Target target;
  std::vector<int64_t> shape, target_shape;

  bool operator==(const Kind&) const = default;
};

size_t Product(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1},
                         std::multiplies<>());
}

// Examples row by row: one kind of input and one of target.
struct Rows {
  size_t count = 0;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> tokens;
  std::vector<float> numbers;
  std::vector<int32_t> labels;
  std::vector<float> values;
  std::vector<uint32_t> clients;
};

class NpzFile {
 public:
  static Result<NpzFile> Read(const std::string& path) {
    static constexpr const char* kNames[] = {"x", "y", "client"};
    Result<std::map<std::string, NpyArray>> arrays = ReadNpz(path, kNames);
    if (!arrays) return arrays.error();
    NpzFile file;
    file.path_ = path;
    file.arrays_ = std::move(*arrays);
    for (const char* name : {"x", "y"}) {
      if (!file.arrays_.contains(name)) {
        return FileError(ErrorCode::kBadFormat, path,
                         std::string("has no array called ") + name);
      }
    }
    return file;
  }

  Result<Kind> KindOfArrays() const {
    const NpyArray &x = arrays_.at("x"), &y = arrays_.at("y");
    for (const auto& [name, array] : arrays_) {
      if (array.shape.empty() || array.bytes.empty()) {
        return Refuse(name, "has no examples in it");
      }
    }
    for (const auto& [name, array] : arrays_) {
      if (array.shape[0] != x.shape[0]) {
        return Refuse(name, "has " + std::to_string(array.shape[0]) +
                                " examples, but x has " +
                                std::to_string(x.shape[0]));
      }
    }
    if (x.shape[0] > std::numeric_limits<uint32_t>::max()) {
      return Refuse("x", "has too many examples");
    }
    Kind kind{Input::kNumbers, Target::kNumbers, ExampleShape(x),
              ExampleShape(y)};
    if (x.kind == 'u' && x.item_bytes == 1 && x.shape.size() >= 3) {
      kind.input = Input::kImages;
      if (kind.shape.size() == 2) kind.shape.push_back(1);
      if (kind.shape.size() != 3 ||
          (kind.shape[2] != 1 && kind.shape[2] != 3)) {
        const bool channels_first =
            x.shape.size() == 4 && (x.shape[1] == 1 || x.shape[1] == 3);
        return Refuse(
            "x",
            "of bytes must have the shape of images, (n, h, w) "
            "or (n, h, w, 1 or 3), not " +
                ShapeText(x.shape) +
                (channels_first ? ": save x.transpose(0, 2, 3, 1)" : ""));
      }
    } else if (x.is_integer()) {
      kind.input = Input::kTokens;
    }
    for (const char* name : {"x", "y"}) {
      if (arrays_.at(name).is_text()) {
        return Refuse(name,
                      "has text in it: save numbers, such as "
                      "numpy.unique(" +
                          std::string(name) + ", return_inverse=True)[1]");
      }
    }
    if (kind.shape.empty()) kind.shape = {1};
    if (!y.is_integer()) return kind;
    if (Product(kind.target_shape) == 1 && kind.target_shape.size() <= 1) {
      kind.target = Target::kClass;
    } else if (kind.input == Input::kImages && y.shape.size() == 3 &&
               std::equal(y.shape.begin(), y.shape.end(), x.shape.begin())) {
      kind.target = Target::kPixelClasses;
    } else {
      return Refuse("y",
                    "of integers must have a class per example or per "
                    "pixel of an image: its shape is " +
                        ShapeText(y.shape) + ", that of x " +
                        ShapeText(x.shape) +
                        (y.shape.size() == 2 ? ". If it is one-hot, save "
                                               "y.argmax(1)"
                                             : ""));
    }
    kind.target_shape.clear();
    return kind;
  }

  // The arrays are gone then.
  Result<Rows> TakeRows(const Kind& kind) {
    NpyArray& x = arrays_.at("x");
    Rows rows;
    rows.count = x.shape[0];
    Status taken = Ok();
    if (kind.input == Input::kImages) {
      rows.pixels = std::move(x.bytes);
    } else if (kind.input == Input::kTokens) {
      taken = TakeIntegers("x", "token", kMaxToken, rows.tokens);
    } else {
      taken = TakeFloats("x", rows.numbers);
    }
    if (!taken) return taken.error();
    if (kind.target == Target::kNumbers) {
      taken = TakeFloats("y", rows.values);
    } else {
      taken = TakeIntegers("y", "class", kMaxClasses - 1, rows.labels);
      if (kind.target == Target::kPixelClasses) {
        std::ranges::replace(rows.labels, int32_t{kNoClassInFile}, kNoClass);
      }
    }
    if (!taken) return taken.error();
    if (arrays_.contains("client")) {
      const NpyArray& client = arrays_.at("client");
      if ((!client.is_integer() && !client.is_text()) ||
          client.size() != rows.count) {
        return Refuse("client", "must have an integer or a name per example");
      }
      if (client.is_text()) {
        rows.clients = NumbersOfNames(client);
      } else {
        taken = TakeIntegers("client", "client", kMaxClient, rows.clients);
        if (!taken) return taken.error();
      }
    }
    arrays_.clear();
    return rows;
  }

 private:
  static constexpr int64_t kMaxToken = std::numeric_limits<int32_t>::max() - 1;
  static constexpr int64_t kMaxClient = std::numeric_limits<uint32_t>::max();

  static std::vector<int64_t> ExampleShape(const NpyArray& array) {
    return {array.shape.begin() + 1, array.shape.end()};
  }

  // In the order of the names, so that it does not matter who comes first.
  static std::vector<uint32_t> NumbersOfNames(const NpyArray& names) {
    std::map<std::u32string, uint32_t> numbers;
    for (size_t i = 0; i < names.size(); ++i) numbers[names.Text(i)] = 0;
    uint32_t next = 0;
    for (auto& [name, number] : numbers) number = next++;
    std::vector<uint32_t> of_examples;
    for (size_t i = 0; i < names.size(); ++i) {
      of_examples.push_back(numbers.at(names.Text(i)));
    }
    return of_examples;
  }

  Error Refuse(const std::string& array, const std::string& what) const {
    return FileError(ErrorCode::kBadValue, path_,
                     "array " + array + " " + what);
  }

  // `what` an element is, for messages.
  template <typename T>
  Status TakeIntegers(const std::string& name, const std::string& what,
                      int64_t largest, std::vector<T>& to) {
    const NpyArray& array = arrays_.at(name);
    const size_t width = array.size() / array.shape[0];
    to.reserve(array.size());
    for (size_t i = 0; i < array.size(); ++i) {
      const int64_t value = array.Integer(i);
      if (value < 0 || value > largest) {
        return Refuse(name, "has " + what + " " + std::to_string(value) +
                                " in example " + std::to_string(i / width) +
                                "; it must be from 0 to " +
                                std::to_string(largest));
      }
      to.push_back(static_cast<T>(value));
    }
    return Ok();
  }

  Status TakeFloats(const std::string& name, std::vector<float>& to) {
    const NpyArray& array = arrays_.at(name);
    const size_t width = array.size() / array.shape[0];
    to.reserve(array.size());
    for (size_t i = 0; i < array.size(); ++i) {
      to.push_back(array.Float(i));
      if (!std::isfinite(to.back())) {
        return Refuse(name, "has a number in example " +
                                std::to_string(i / width) +
                                " that is no finite float32");
      }
    }
    return Ok();
  }

  std::string path_;
  std::map<std::string, NpyArray> arrays_;
};

struct LoadedNpz {
  Kind kind;
  Rows rows;
};

Result<LoadedNpz> Load(const std::string& path) {
  Result<NpzFile> file = NpzFile::Read(path);
  if (!file) return file.error();
  Result<Kind> kind = file->KindOfArrays();
  if (!kind) return kind.error();
  Result<Rows> rows = file->TakeRows(*kind);
  if (!rows) return rows.error();
  return LoadedNpz{std::move(*kind), std::move(*rows)};
}

// Which rows of which file are the examples.
struct Part {
  std::shared_ptr<const Rows> rows;
  std::vector<uint32_t> of_example;
};

Status KeepFirst(uint64_t wanted, const char* kind, const std::string& path,
                 Part& part) {
  const Result<uint64_t> count =
      HowMany(wanted, part.of_example.size(), kind, path);
  if (!count) return count.error();
  part.of_example.resize(*count);
  return Ok();
}

// One more than the largest.
uint32_t CountOf(const std::vector<int32_t>& train,
                 const std::vector<int32_t>& test) {
  int32_t largest = -1;
  for (const auto* codes : {&train, &test}) {
    if (codes->empty()) continue;
    largest = std::max(largest, *std::ranges::max_element(*codes));
  }
  return static_cast<uint32_t>(largest + 1);
}

// What looks like a mistake, and trains all the same.
std::vector<std::string> Doubts(const Kind& kind, const Rows& rows) {
  std::vector<std::string> doubts;
  const auto whole = [](float value) {
    return value >= 0 && value <= 1000 && value == std::floor(value);
  };
  if (kind.target == Target::kNumbers) {
    const size_t width = rows.values.size() / rows.count;
    const bool all_whole = std::ranges::all_of(rows.values, whole);
    bool one_hot = width > 1 && kind.target_shape.size() == 1;
    for (size_t row = 0; one_hot && row < rows.count; ++row) {
      const auto first =
          rows.values.begin() + static_cast<ptrdiff_t>(row * width);
      const auto last = first + static_cast<ptrdiff_t>(width);
      one_hot = std::count(first, last, 1.0f) == 1 &&
                std::count(first, last, 0.0f) == kind.target_shape[0] - 1;
    }
    if (one_hot) {
      doubts.push_back("y looks one-hot: as floats it is a regression of " +
                       std::to_string(width) +
                       " numbers; for classes save y.argmax(1)");
    } else if (width == 1 && all_whole) {
      doubts.push_back(
          "y has whole numbers only: as floats it is a regression; for classes "
          "save y.astype(int)");
    }
  }
  if (kind.input == Input::kNumbers && kind.shape.size() > 1 &&
      *std::ranges::max_element(rows.numbers) > 16 &&
      std::ranges::all_of(rows.numbers, whole)) {
    doubts.push_back("x has whole numbers up to " +
                     std::to_string(static_cast<int>(
                         *std::ranges::max_element(rows.numbers))) +
                     ": floats are not divided by 255, as bytes are; save "
                     "x.astype(numpy.uint8), (n, h, w, channels), or x / 255");
  }
  return doubts;
}

// Gives the values of one row, which may be empty.
template <typename T>
std::span<const T> RowOf(const std::vector<T>& all, const Rows& rows,
                         size_t row) {
  const size_t width = all.size() / rows.count;
  return std::span(all).subspan(row * width, width);
}

// Target::kClass has only one. It is 0 if there is none.
uint16_t CommonestClass(std::span<const int32_t> labels, uint32_t classes) {
  if (labels.size() == 1) return static_cast<uint16_t>(std::max(labels[0], 0));
  std::vector<uint32_t> counts(classes);
  for (const int32_t label : labels) {
    if (label != kNoClass) ++counts[static_cast<size_t>(label)];
  }
  return static_cast<uint16_t>(std::ranges::max_element(counts) -
                               counts.begin());
}

// Empty, for so many examples.
void Start(const Kind& kind, size_t examples, Batch& batch) {
  batch.examples = static_cast<uint32_t>(examples);
  batch.shape = {static_cast<int64_t>(examples)};
  batch.shape.insert(batch.shape.end(), kind.shape.begin(), kind.shape.end());
  batch.x.clear();
  batch.tokens.clear();
  batch.labels.clear();
  batch.values.clear();
}

void Append(const Part& part, size_t example, Batch& batch) {
  FEDMRN_CHECK(example < part.of_example.size());
  const Rows& rows = *part.rows;
  const uint32_t row = part.of_example[example];
  for (const uint8_t pixel : RowOf(rows.pixels, rows, row)) {
    batch.x.push_back(static_cast<float>(pixel) / 255.0f);
  }
  const auto append = [&](const auto& from, auto& to) {
    const auto values = RowOf(from, rows, row);
    to.insert(to.end(), values.begin(), values.end());
  };
  append(rows.numbers, batch.x);
  append(rows.tokens, batch.tokens);
  append(rows.labels, batch.labels);
  append(rows.values, batch.values);
}

// Such as all of them, where labels take turns and every tenth is a test.
size_t TestsOfUnknownClasses(const Kind& kind, const Part& test,
                             const Data& data) {
  if (kind.target != Target::kClass) return 0;
  std::vector<bool> known(data.classes);
  for (const uint16_t label : data.labels) known[label] = true;
  return static_cast<size_t>(
      std::ranges::count_if(test.of_example, [&](uint32_t row) {
        const auto labels = RowOf(test.rows->labels, *test.rows, row);
        return !known[CommonestClass(labels, data.classes)];
      }));
}

}  // namespace

Result<Data> LoadNpz(const DataSet& set, const DataSettings& settings) {
  if (settings.path.empty()) {
    return Error{ErrorCode::kBadValue,
                 "data.path: must name an .npz file with arrays x and y"};
  }
  Result<LoadedNpz> loaded = Load(settings.path);
  if (!loaded) return loaded.error();
  const Kind kind = loaded->kind;
  Part train, test;
  train.rows = std::make_shared<const Rows>(std::move(loaded->rows));
  train.of_example.resize(train.rows->count);
  std::iota(train.of_example.begin(), train.of_example.end(), 0u);
  if (settings.test_path.empty()) {
    test.rows = train.rows;
    std::ranges::copy_if(train.of_example, std::back_inserter(test.of_example),
                         IsHeldOut);
    std::erase_if(train.of_example, IsHeldOut);
    if (test.of_example.empty()) {
      return FileError(ErrorCode::kBadValue, settings.path,
                       "has too few examples to hold out every tenth for the "
                       "test: set data.test_path");
    }
  } else {
    loaded = Load(settings.test_path);
    if (!loaded) return loaded.error();
    if (loaded->kind != kind) {
      return FileError(
          ErrorCode::kBadValue, settings.test_path,
          "has arrays of other types or shapes than " + settings.path);
    }
    test.rows = std::make_shared<const Rows>(std::move(loaded->rows));
    test.of_example.resize(test.rows->count);
    std::iota(test.of_example.begin(), test.of_example.end(), 0u);
  }

  Data data;
  data.name = set.name;
  data.notes = Doubts(kind, *train.rows);
  data.input = kind.input;
  data.target = kind.target;
  data.shape = kind.shape;
  data.target_shape = kind.target_shape;
  data.vocabulary = CountOf(train.rows->tokens, test.rows->tokens);
  data.classes = kind.target == Target::kNumbers
                     ? 1
                     : CountOf(train.rows->labels, test.rows->labels);
  if (data.classes == 0) {
    return FileError(ErrorCode::kBadValue, settings.path,
                     "array y has no class in it, only 255");
  }
  if (kind.input == Input::kImages) {
    data.mean.assign(static_cast<size_t>(kind.shape[2]), 0);
    data.std.assign(static_cast<size_t>(kind.shape[2]), 1);
  }
  Status kept =
      KeepFirst(settings.train_examples, "training", settings.path, train);
  if (kept) {
    kept = KeepFirst(
        settings.test_examples, "test",
        settings.test_path.empty() ? settings.path : settings.test_path, test);
  }
  if (!kept) return kept.error();
  data.train_examples = train.of_example.size();
  data.test_examples = test.of_example.size();
  for (const uint32_t row : train.of_example) {
    const auto labels = RowOf(train.rows->labels, *train.rows, row);
    data.labels.push_back(CommonestClass(labels, data.classes));
    if (!train.rows->clients.empty()) {
      data.clients.push_back(train.rows->clients[row]);
    }
  }
  const size_t unknown = TestsOfUnknownClasses(kind, test, data);
  if (unknown > 0) {
    data.notes.push_back(
        std::to_string(unknown) + " of " + std::to_string(data.test_examples) +
        " test examples are of classes that no training example has" +
        (settings.test_path.empty()
             ? ": every tenth example is a test; save them in random order, or "
               "set data.test_path"
             : ""));
  }
  data.train_batch = [kind, train](std::span<const uint32_t> examples,
                                   const PhiloxStream&, Batch& batch) {
    Start(kind, examples.size(), batch);
    for (const uint32_t i : examples) Append(train, i, batch);
  };
  data.test_batch = [kind, test](uint64_t first, uint32_t count, Batch& batch) {
    Start(kind, count, batch);
    for (uint32_t i = 0; i < count; ++i) Append(test, first + i, batch);
  };
  return data;
}

}  // namespace fedmrn::train
