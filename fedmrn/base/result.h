// Result<T>: what a function that meets outside bytes returns: a value or an
// Error that says what was wrong and where. The core never throws at bad input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "fedmrn/base/check.h"

namespace fedmrn {

enum class ErrorCode : uint8_t {
  kTruncated,    // ends before a field that must be there
  kBadFormat,    // magic, version, codec or a length that cannot be right
  kBadChecksum,  // damaged on the way
  kBadValue,     // a field or number out of its range
  kNotFinite,    // a value to be sent is infinite or no number
  kForeign,      // a sound frame, but of another model, codec or noise
  kStale,        // a sound frame of another round
  kDuplicate,    // this client has been added already
  kFull,         // the sum has no room for more weight
  kUnavailable,  // a path or a client that cannot be reached
  kFailed,       // all was right, but the work failed: a full disk, no network
  kStopped,      // the user has ended the work
};

struct Error {
  // For errors that concern no byte of the input.
  static constexpr size_t kNoOffset = static_cast<size_t>(-1);

  ErrorCode code;
  std::string message;
  size_t offset = kNoOffset;  // of the offending byte in the input

  // "offset 40: message" or just the message.
  std::string ToString() const {
    return offset == kNoOffset
               ? message
               : "offset " + std::to_string(offset) + ": " + message;
  }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only when ok().
  T& value() & {
    FEDMRN_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    FEDMRN_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    FEDMRN_CHECK(ok());
    return std::move(std::get<0>(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only when !ok().
  const Error& error() const {
    FEDMRN_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

// A Result without a value.
using Status = Result<std::monostate>;
inline Status Ok() { return std::monostate{}; }

}  // namespace fedmrn

// The value of a Result, or the end of this function with its error:
//   const Config config = FEDMRN_TRY(LoadConfig(path));
//   FEDMRN_TRY(WriteFile(path, bytes));
#define FEDMRN_TRY(...)                                    \
  __extension__({                                          \
    auto fedmrn_result = (__VA_ARGS__);                    \
    if (!fedmrn_result.ok()) return fedmrn_result.error(); \
    std::move(fedmrn_result).value();                      \
  })
