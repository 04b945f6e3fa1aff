#include "base/log.h"

#include <unistd.h>

#include "base/printable.h"

namespace tombolo {

std::string_view log_level_name(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kTrace:
      return "trace";
  }
  return "unknown";
}

Log Log::to_stderr(LogLevel level) {
  return Log(level, [](LogLevel at, std::string_view text) {
    std::string line = fmt::format("tombolo {}: {}\n", log_level_name(at), printable(text));
    // One write per line keeps the lines of several ranks whole. A lost line is not worth an error.
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  });
}

}  // namespace tombolo
