// A log, line by line, however long its lines are and whatever bytes they hold.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace tombolo::planner {

/// Lines end at a newline or, as those of progress bars do, at a carriage return. Each comes without its end,
/// colours (escape sequences) and control characters, and of a long one the first 64 KiB. The last line
/// counts only where it has an end: a program that still runs may be writing it.
class LogLines {
 public:
  /// `log` must outlive this.
  explicit LogLines(std::istream& log);

  /// Gives the next line; false at the end.
  bool next(std::string& line);
  /// Of the line that next() gave, from 1, as editors count: by newlines alone. At the end, how many there
  /// are.
  std::uint64_t number() const noexcept { return number_; }
  /// At the end: whether the last line had no end.
  bool unfinished() const noexcept { return unfinished_; }

 private:
  bool fill();

  std::istream& log_;
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;  // what of the block is still to be read
  std::uint64_t number_ = 0;
  bool after_newline_ = true, unfinished_ = false;
};

}  // namespace tombolo::planner
