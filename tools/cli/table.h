// Text tables with aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tombolo::tools {

/// Columns are as wide as their widest cell; the last one is wrapped to the terminal's width.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  /// `row` has as many cells as the header.
  void add(std::vector<std::string> row);
  bool empty() const noexcept { return rows_.empty(); }
  /// `width` in characters; 0 = do not wrap.
  std::string text(std::size_t width) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

/// The number of characters per line of the terminal on standard output; 0 where it is no terminal.
std::size_t terminal_width();

}  // namespace tombolo::tools
