// How a connection fails in calls that throw nothing, also while memory is short or the log's sink throws.
#pragma once

#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/log.h"

namespace tombolo::transport {

/// Runs the work of one call. What it throws, such as for a lack of memory or an invariant that does not
/// hold, is told to `on_failure` with a cause and a text: no exception leaves a call, and none ends the
/// process.
template <typename Work, typename OnFailure>
void guarded(const Work& work, const OnFailure& on_failure) noexcept {
  static_assert(std::is_nothrow_invocable_v<const OnFailure&, Cause, std::string_view>);
  try {
    work();
  } catch (const Error& error) {
    on_failure(error.cause(), std::string_view(error.what()));
  } catch (const std::exception& error) {
    on_failure(Cause::kSystem, std::string_view(error.what()));
  } catch (...) {
    on_failure(Cause::kInternal, std::string_view("something was thrown that is no std::exception"));
  }
}

/// Makes the errors of one connection without throwing. Where there is no memory for a text, a shorter one
/// takes its place, which was made with the connection.
class FailureTexts {
 public:
  explicit FailureTexts(std::string_view connection)
      : shorter_(std::string(connection) + ": it failed, and there was no memory for a text that says how") {}

  /// The text is made of `parts`, one behind the other.
  Error error(Cause cause, std::initializer_list<std::string_view> parts) const noexcept {
    try {
      std::string text;
      for (const std::string_view part : parts) text += part;
      return {cause, text};
    } catch (const std::exception&) {
      return {cause, shorter_};
    }
  }

 private:
  std::runtime_error shorter_;
};
static_assert(std::is_nothrow_copy_constructible_v<Error>);

/// Writes a failure to the log, if that is possible: a sink that throws changes nothing of the failure.
inline void trace_failure(const Log& log, const Error& error) noexcept {
  try {
    log.trace("{}", error.what());
  } catch (...) {  // whatever a caller's sink throws
  }
}

}  // namespace tombolo::transport
