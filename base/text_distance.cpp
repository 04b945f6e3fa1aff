#include "base/text_distance.h"

#include <algorithm>
#include <vector>

namespace tombolo {

std::size_t text_distance(std::string_view a, std::string_view b) {
  // Rows of the edit table: distance between a's first i letters and b's first j.
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> nearest_name(std::string_view name, std::span<const std::string_view> known) {
  constexpr std::size_t kLongest = 256;  // bounds the cost of hostile input; misspelt names are shorter
  if (name.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (auto candidate : known) {
    if (candidate.empty()) continue;
    std::size_t distance = text_distance(name, candidate);
    if (distance > std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3)) continue;
    if (!best || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace tombolo
