// Errors of set-up and configuration paths, and the one macro that checks invariants. The room base/ owns
// what every room needs and no room is about: errors, log, clocks, declared environment parameters, units,
// JSON with line numbers.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/format.h"

namespace tombolo {

/// Why an operation failed. The C ABIs translate each cause to a result code of their own.
enum class Cause {
  kSystem,        ///< the operating system or a driver refused (errno is in the text)
  kRemote,        ///< the other end closed, reset, or answered with an error
  kTimeout,       ///< a deadline passed
  kAborted,       ///< the user or another rank cancelled the operation
  kInvalidUsage,  ///< an argument, file or environment variable is wrong
  kUnsupported,   ///< valid, but not available on this machine or in this build
  kInternal,      ///< a broken invariant: a bug in Tombolo
};

/// "system", "remote", ...: the word used in messages and JSON.
std::string_view cause_name(Cause cause) noexcept;

/// The one exception type. `what()` says what was tried, on what, with which values, and what to do.
class Error : public std::runtime_error {
 public:
  Error(Cause cause, const std::string& message) : std::runtime_error(message), cause_(cause) {}
  /// With the text of an exception that exists, which takes no memory.
  Error(Cause cause, const std::runtime_error& text) noexcept : std::runtime_error(text), cause_(cause) {}
  Cause cause() const noexcept { return cause_; }

 private:
  Cause cause_;
};

template <typename... Args>
[[noreturn]] void fail(Cause cause, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(cause, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws kSystem with ": <strerror(error_number)> (errno N)" appended.
[[noreturn]] void fail_errno(int error_number, std::string_view what);

/// A thread-safe strerror.
std::string errno_text(int error_number);

namespace detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& values);
}

}  // namespace tombolo

/// Checks an invariant in every build type; throws Cause::kInternal with expression, values, file and line.
///   TOMBOLO_CHECK(used <= capacity, "used={} capacity={}", used, capacity);
#define TOMBOLO_CHECK(expression, ...)                                    \
  (static_cast<bool>(expression)                                          \
       ? static_cast<void>(0)                                             \
       : ::tombolo::detail::check_failed(#expression, __FILE__, __LINE__, \
                                         ::tombolo::detail::format_values(__VA_ARGS__)))
