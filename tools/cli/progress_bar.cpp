#include "tools/cli/progress_bar.h"

#include <unistd.h>

#include <cstdio>

#include "base/format.h"

namespace tombolo::tools {

void draw_progress(std::string_view what, int done, int total) {
  if (total <= 0) return;
  constexpr int kBar = 30;
  const int filled = kBar * done / total;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{}{}", what, "", filled, "", kBar - filled, done, total,
             done == total ? "\n" : "");
  std::fflush(stderr);
}

bool can_draw_progress() noexcept {
  return ::isatty(STDERR_FILENO) != 0;
}

}  // namespace tombolo::tools
