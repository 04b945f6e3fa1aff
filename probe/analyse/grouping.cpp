#include "probe/analyse/grouping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace tombolo::probe {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// A node of the tree of merges: a point, or a merge of two nodes with the logarithm of the distance between
/// them.
struct Merge {
  std::size_t left = 0, right = 0;
  double height = -std::numeric_limits<double>::infinity();  // a point's value is below any distance
  std::vector<std::size_t> members;
};

Matrix logarithms(const Matrix& distance) {
  Matrix logs = distance;
  for (std::size_t i = 0; i < distance.size(); ++i) {
    TOMBOLO_CHECK(distance[i].size() == distance.size(), "row {} has {} of {} columns", i, distance[i].size(),
                  distance.size());
    for (std::size_t j = 0; j < distance.size(); ++j)
      if (i != j) logs[i][j] = std::log((distance[i][j] + distance[j][i]) / 2);
  }
  return logs;
}

class Tree {
 public:
  explicit Tree(Matrix logs) : logs_(std::move(logs)) {
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      nodes_.emplace_back().members = {i};
      active_.push_back(i);
    }
    apart_ = logs_;
    while (active_.size() > 1) merge_nearest();
  }

  std::vector<NearGroup> groups() {
    if (!nodes_.empty()) split(nodes_.size() - 1);
    for (NearGroup& group : groups_) std::ranges::sort(group.members);
    std::ranges::sort(groups_, {}, [](const NearGroup& group) { return group.members.front(); });
    return std::move(groups_);
  }

 private:
  void merge_nearest() {
    std::size_t a = 0, b = 1;
    for (std::size_t i = 0; i < active_.size(); ++i)
      for (std::size_t j = i + 1; j < active_.size(); ++j)
        if (apart_[active_[i]][active_[j]] < apart_[active_[a]][active_[b]]) std::tie(a, b) = std::pair(i, j);
    const std::size_t left = active_[a], right = active_[b], made = nodes_.size();
    Merge merge{left, right, apart_[left][right], nodes_[left].members};
    merge.members.insert(merge.members.end(), nodes_[right].members.begin(), nodes_[right].members.end());
    const auto weight_left = static_cast<double>(nodes_[left].members.size());
    const auto weight_right = static_cast<double>(nodes_[right].members.size());
    nodes_.push_back(std::move(merge));
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(b));
    active_[a] = made;
    for (auto& row : apart_) row.push_back(0);
    apart_.emplace_back(made + 1);
    for (const std::size_t other : active_) {
      if (other == made) continue;
      const double mean = (weight_left * apart_[left][other] + weight_right * apart_[right][other]) /
                          (weight_left + weight_right);
      apart_[made][other] = apart_[other][made] = mean;
    }
  }

  /// The largest parts of a node whose merges are all at or below `height`.
  void parts_below(std::size_t node, double height, std::vector<std::size_t>& parts) const {
    if (nodes_[node].height <= height) {
      parts.push_back(node);
      return;
    }
    parts_below(nodes_[node].left, height, parts);
    parts_below(nodes_[node].right, height, parts);
  }

  void split(std::size_t node) {
    std::vector<std::size_t> parts, loose;
    parts_below(node, nodes_[node].height - std::log(kMarkedly), parts);
    const auto is_point = [&](std::size_t part) { return nodes_[part].members.size() == 1; };
    if (parts.size() == 1 || std::ranges::all_of(parts, is_point)) {
      groups_.push_back({nodes_[node].members, true});
      return;
    }
    for (const std::size_t part : parts) {
      if (is_point(part)) {
        loose.push_back(nodes_[part].members.front());
      } else {
        split(part);
      }
    }
    add_loose(loose);
  }

  /// Adds points that are near no other: they make one group, unless some of them are markedly farther from
  /// each other than from what is nearest to them.
  void add_loose(const std::vector<std::size_t>& points) {
    const auto nearest = [&](std::size_t point) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t other = 0; other < logs_.size(); ++other)
        if (other != point) least = std::min(least, logs_[point][other]);
      return least;
    };
    bool together = true;
    for (const std::size_t a : points)
      for (const std::size_t b : points)
        together = together && (a == b || logs_[a][b] <= nearest(a) + std::log(kMarkedly));
    if (together && !points.empty()) {
      groups_.push_back({points, false});
    } else {
      for (const std::size_t point : points) groups_.push_back({{point}, false});
    }
  }

  Matrix logs_, apart_;  // logarithms of distances between points; between nodes
  std::vector<Merge> nodes_;
  std::vector<std::size_t> active_;
  std::vector<NearGroup> groups_;
};

}  // namespace

std::vector<NearGroup> near_groups(const std::vector<std::vector<double>>& distance) {
  return Tree(logarithms(distance)).groups();
}

}  // namespace tombolo::probe
