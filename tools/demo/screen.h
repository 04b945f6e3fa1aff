// The demo's output while it works: numbered steps with the time since the start, and a progress line that is
// rewritten on a terminal and printed less often elsewhere.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/format.h"

namespace tombolo::tools::demo {

/// Used by one thread.
class Screen {
 public:
  /// `out` is borrowed: standard output, or standard error where standard output is for JSON.
  Screen(std::FILE* out, int steps, const Clock& clock = Clock::steady());
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Prints a step's title: "[  12 s] 3/8 Probing the links".
  void step(std::string_view title);
  /// Prints an indented line; `text` may hold several.
  void say(std::string_view text);
  template <typename... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    say(fmt::format(text, std::forward<Args>(args)...));
  }
  /// Replaces the last progress line on a terminal; elsewhere at most one every ten seconds is printed.
  void progress(std::string_view text);

  double elapsed_seconds() const;

 private:
  void clear_progress();
  std::FILE* out_;
  const Clock* clock_;
  TimePoint start_, last_progress_;
  int steps_, step_ = 0;
  bool terminal_, progress_shown_ = false;
};

}  // namespace tombolo::tools::demo
