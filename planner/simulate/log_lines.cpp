#include "planner/simulate/log_lines.h"

#include <algorithm>

#include "base/units.h"

namespace tombolo::planner {

namespace {

constexpr std::size_t kBlock = 64 * kKiB, kLongestLine = 64 * kKiB;

/// Removes escape sequences ("ESC [ ... letter") and control characters, of which a tabulator becomes a
/// blank.
void make_plain(std::string& line) {
  constexpr char kEscape = '\033', kFirstPlain = ' ', kFirstFinal = '@', kLastFinal = '~';
  std::size_t kept = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char one = line[at];
    if (one == kEscape && at + 1 < line.size() && line[at + 1] == '[') {
      at += 2;
      while (at < line.size() && !(line[at] >= kFirstFinal && line[at] <= kLastFinal)) ++at;
    } else if (one == '\t') {
      line[kept++] = ' ';
    } else if (static_cast<unsigned char>(one) >= static_cast<unsigned char>(kFirstPlain)) {
      line[kept++] = one;
    }
  }
  line.resize(kept);
}

}  // namespace

LogLines::LogLines(std::istream& log) : log_(log), block_(kBlock) {}

bool LogLines::fill() {
  begin_ = 0;
  log_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
  end_ = static_cast<std::size_t>(std::max<std::streamsize>(log_.gcount(), 0));
  return end_ > 0;
}

bool LogLines::next(std::string& line) {
  line.clear();
  bool any = false;
  while (begin_ < end_ || fill()) {
    if (after_newline_) ++number_;
    after_newline_ = false;
    any = true;
    const auto from = block_.begin() + static_cast<std::ptrdiff_t>(begin_),
               to = block_.begin() + static_cast<std::ptrdiff_t>(end_);
    const auto found = std::find_if(from, to, [](char one) { return one == '\n' || one == '\r'; });
    const auto size = static_cast<std::size_t>(found - from);
    line.append(from, from + static_cast<std::ptrdiff_t>(std::min(size, kLongestLine - line.size())));
    begin_ += size;
    if (found == to) continue;
    after_newline_ = *found == '\n';
    ++begin_;
    make_plain(line);
    return true;
  }
  unfinished_ = any;
  line.clear();
  return false;
}

}  // namespace tombolo::planner
