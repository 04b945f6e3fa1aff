#include "tools/demo/screen.h"

#include <unistd.h>

namespace tombolo::tools::demo {

Screen::Screen(std::FILE* out, int steps, const Clock& clock)
    : out_(out),
      clock_(&clock),
      start_(clock.now()),
      last_progress_(start_),
      steps_(steps),
      terminal_(isatty(fileno(out)) == 1) {}

Screen::~Screen() {
  clear_progress();
  std::fflush(out_);
}

double Screen::elapsed_seconds() const {
  return to_seconds(clock_->now() - start_);
}

void Screen::step(std::string_view title) {
  clear_progress();
  ++step_;
  last_progress_ = clock_->now();
  const char* bold = terminal_ ? "\033[1m" : "";
  const char* plain = terminal_ ? "\033[0m" : "";
  fmt::print(out_, "\n{}[{:5.1f} s] {}/{} {}{}\n", bold, elapsed_seconds(), step_, steps_, title, plain);
  std::fflush(out_);
}

void Screen::say(std::string_view text) {
  clear_progress();
  while (!text.empty()) {
    auto end = text.find('\n');
    auto row = text.substr(0, end);
    fmt::print(out_, "{}{}\n", row.empty() ? "" : "          ", row);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  std::fflush(out_);
}

void Screen::progress(std::string_view text) {
  auto now = clock_->now();
  if (terminal_) {
    fmt::print(out_, "\r\033[K          {}", text);
    progress_shown_ = true;
  } else {
    if (now - last_progress_ < std::chrono::seconds(10)) return;
    fmt::print(out_, "          ({:.0f} s) {}\n", elapsed_seconds(), text);
  }
  last_progress_ = now;
  std::fflush(out_);
}

void Screen::clear_progress() {
  if (progress_shown_) fmt::print(out_, "\r\033[K");
  progress_shown_ = false;
}

}  // namespace tombolo::tools::demo
