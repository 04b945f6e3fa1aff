// Logging through a callback: the libraries have no logger of their own, so that NCCL's, a test's or one that
// prints can be passed in.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/format.h"

namespace tombolo {

enum class LogLevel { kError, kWarning, kInfo, kTrace };

/// "error", "warning", "info", "trace".
std::string_view log_level_name(LogLevel level) noexcept;

/// A value type, cheap to copy. A default-constructed Log is silent. The sink may be called from any thread
/// that uses the object it was passed to, so it must be thread-safe.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  Log() = default;
  Log(LogLevel level, Sink sink) : level_(level), sink_(std::move(sink)) {}

  /// A Log that writes lines "tombolo <level>: <text>" to standard error, with one write each.
  static Log to_stderr(LogLevel level);

  /// Whether lines of that level go anywhere; for lines that are costly to make.
  bool enabled(LogLevel level) const noexcept { return sink_ && level <= level_; }

  template <typename... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) const {
    write(LogLevel::kError, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warning(fmt::format_string<Args...> text, Args&&... args) const {
    write(LogLevel::kWarning, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const {
    write(LogLevel::kInfo, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void trace(fmt::format_string<Args...> text, Args&&... args) const {
    write(LogLevel::kTrace, text, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void write(LogLevel level, fmt::format_string<Args...> text, Args&&... args) const {
    if (enabled(level)) sink_(level, fmt::format(text, std::forward<Args>(args)...));
  }
  LogLevel level_ = LogLevel::kWarning;
  Sink sink_;
};

}  // namespace tombolo
