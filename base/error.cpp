#include "base/error.h"

#include <system_error>

namespace tombolo {

std::string_view cause_name(Cause cause) noexcept {
  switch (cause) {
    case Cause::kSystem:
      return "system";
    case Cause::kRemote:
      return "remote";
    case Cause::kTimeout:
      return "timeout";
    case Cause::kAborted:
      return "aborted";
    case Cause::kInvalidUsage:
      return "invalid usage";
    case Cause::kUnsupported:
      return "unsupported";
    case Cause::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string errno_text(int error_number) {
  return std::generic_category().message(error_number);
}

void fail_errno(int error_number, std::string_view what) {
  fail(Cause::kSystem, "{}: {} (errno {})", what, errno_text(error_number), error_number);
}

namespace detail {

void check_failed(const char* expression, const char* file, int line, const std::string& values) {
  fail(Cause::kInternal, "{}:{}: check failed: {}{}{}. This is a bug in Tombolo; please report it.", file,
       line, expression, values.empty() ? "" : ": ", values);
}

}  // namespace detail
}  // namespace tombolo
