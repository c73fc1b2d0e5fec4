#include "fedmrn/results/confusion.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace fedmrn::results {

size_t Confusion::classes() const {
  return static_cast<size_t>(
      std::lround(std::sqrt(static_cast<double>(counts.size()))));
}

std::vector<double> ClassAccuracies(const Confusion& confusion) {
  const size_t classes = confusion.classes();
  std::vector<double> accuracies;
  for (size_t c = 0; c < classes; ++c) {
    uint64_t examples = 0;
    for (size_t answer = 0; answer < classes; ++answer) {
      examples += confusion.counts[c * classes + answer];
    }
    const auto right = static_cast<double>(confusion.counts[c * classes + c]);
    accuracies.push_back(examples == 0 ? std::nan("")
                                       : right / static_cast<double>(examples));
  }
  return accuracies;
}

double MacroF1(const Confusion& confusion) {
  const size_t classes = confusion.classes();
  double sum = 0;
  size_t occurring = 0;
  for (size_t c = 0; c < classes; ++c) {
    uint64_t both = 0;  // truths and answers
    for (size_t other = 0; other < classes; ++other) {
      both += confusion.counts[c * classes + other] +
              confusion.counts[other * classes + c];
    }
    if (both == 0) continue;
    sum += 2 * static_cast<double>(confusion.counts[c * classes + c]) /
           static_cast<double>(both);
    ++occurring;
  }
  return occurring == 0 ? std::nan("") : sum / static_cast<double>(occurring);
}

// A line each: round, number of counts, counts.
std::string ConfusionsText(const Confusions& confusions) {
  std::string text;
  for (const Confusion* one : {&confusions.best, &confusions.last}) {
    text +=
        std::to_string(one->round) + ' ' + std::to_string(one->counts.size());
    for (const uint64_t count : one->counts) {
      text += ' ' + std::to_string(count);
    }
    text += '\n';
  }
  return text;
}

Result<Confusions> ParseConfusions(std::string_view text) {
  const Error bad{ErrorCode::kBadFormat, "the confusion matrices are damaged"};
  // A number and the character behind it.
  const auto take = [&](char behind, auto& number) {
    const auto [end, failure] =
        std::from_chars(text.data(), text.data() + text.size(), number);
    const auto size = static_cast<size_t>(end - text.data());
    if (failure != std::errc() || size == text.size() || text[size] != behind) {
      return false;
    }
    text.remove_prefix(size + 1);
    return true;
  };
  Confusions confusions;
  for (Confusion* one : {&confusions.best, &confusions.last}) {
    const size_t line = text.find('\n');
    const size_t fields =
        line == text.npos
            ? 0
            : static_cast<size_t>(
                  std::count(text.begin(),
                             text.begin() + static_cast<ptrdiff_t>(line), ' '));
    size_t size = 0;
    if (fields == 0 || !take(' ', one->round) ||
        !take(fields == 1 ? '\n' : ' ', size) || size != fields - 1) {
      return bad;
    }
    one->counts.resize(size);
    if (one->classes() * one->classes() != size) return bad;
    for (size_t i = 0; i < size; ++i) {
      if (!take(i + 1 < size ? ' ' : '\n', one->counts[i])) return bad;
    }
  }
  return text.empty() ? Result<Confusions>(confusions) : bad;
}

}  // namespace fedmrn::results
