#include "tools/cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace tombolo::tools {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest =
    24;  // the least width of the wrapped column, because a narrower one is harder to read than a long line

/// The number of characters of a UTF-8 text, which may have more bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t blank = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, blank - at);
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (width_of(line) + 1 + width_of(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
    at = blank + 1;
  }
  return lines;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  TOMBOLO_CHECK(row.size() == header_.size(), "cells={} columns={}", row.size(), header_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> widths(header_.size());
  auto widen = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  };
  widen(header_);
  for (const auto& row : rows_) widen(row);
  std::size_t before_last = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) before_last += widths[i] + kGap;
  bool wraps = width >= before_last + kNarrowest;

  std::string out;
  auto print = [&](const std::vector<std::string>& row) {
    std::vector<std::string> last = wraps ? wrap(row.back(), width - before_last) : std::vector{row.back()};
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      out += row[i];
      out.append(widths[i] - width_of(row[i]) + kGap, ' ');
    }
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (i > 0) out.append(before_last, ' ');
      out += last[i];
      while (!out.empty() && out.back() == ' ') out.pop_back();
      out += '\n';
    }
  };
  print(header_);
  for (const auto& row : rows_) print(row);
  return out;
}

std::size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace tombolo::tools
