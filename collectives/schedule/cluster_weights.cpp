#include "collectives/schedule/cluster_weights.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace tombolo::collectives {
namespace {

using Weights = std::vector<std::uint32_t>;

constexpr std::uint32_t kEqual = 64;       // of each cluster, before any gives to another
constexpr std::size_t kMostClusters = 32;  // of more the search would take long, and shares are equal
constexpr double kWorthwhile = 0.95;       // of the time of equal shares

/// What every link carries, in seconds for as many bytes as all weights together.
class Loads {
 public:
  explicit Loads(const std::vector<std::vector<double>>& rates)
      : clusters_(rates.size()), pairs_(clusters_, std::vector<double>(clusters_)), uplinks_(clusters_) {
    for (std::size_t i = 0; i < clusters_; ++i) {
      double out = 0, in = 0;
      for (std::size_t j = 0; j < clusters_; ++j) {
        if (i == j) continue;
        // Sums and what is complete go both ways, so that the slower direction counts.
        if (rates[i][j] > 0 && rates[j][i] > 0) pairs_[i][j] = std::min(rates[i][j], rates[j][i]);
        out = std::max(out, rates[i][j]);
        in = std::max(in, rates[j][i]);
      }
      uplinks_[i] = std::min(out, in);
    }
  }

  bool known() const {
    return std::ranges::all_of(uplinks_, [](double rate) { return rate > 0; });
  }

  /// The longest first.
  std::vector<double> of(const Weights& weights) const {
    const double all = static_cast<double>(kEqual) * static_cast<double>(clusters_);
    std::vector<double> loads;
    for (std::size_t i = 0; i < clusters_; ++i) {
      loads.push_back((all + static_cast<double>((clusters_ - 2) * weights[i])) / uplinks_[i]);
      for (std::size_t j = i + 1; j < clusters_; ++j) {
        if (pairs_[i][j] > 0) loads.push_back(static_cast<double>(weights[i] + weights[j]) / pairs_[i][j]);
      }
    }
    std::ranges::sort(loads, std::greater<>());
    return loads;
  }

 private:
  std::size_t clusters_;
  std::vector<std::vector<double>> pairs_;  // 0: unknown
  std::vector<double> uplinks_;
};

}  // namespace

std::vector<std::uint32_t> cluster_weights(const std::vector<std::vector<double>>& bytes_per_second) {
  const std::size_t clusters = bytes_per_second.size();
  if (clusters < 3 || clusters > kMostClusters) return {};
  const Loads loads(bytes_per_second);
  if (!loads.known()) return {};
  Weights weights(clusters, kEqual);
  std::vector<double> best = loads.of(weights);
  const double equal = best.front();
  // One cluster after the other gives some of its share to another one where that makes the longest times
  // shorter, in ever smaller steps. The times are convex in the shares, so that small steps lead on.
  for (std::uint32_t step = kEqual; step > 0; step /= 2) {
    for (bool better = true; better;) {
      better = false;
      for (std::size_t from = 0; from < clusters; ++from) {
        for (std::size_t to = 0; to < clusters; ++to) {
          if (from == to || weights[from] < step) continue;
          weights[from] -= step;
          weights[to] += step;
          std::vector<double> now = loads.of(weights);
          if (now < best) {
            best = std::move(now);
            better = true;
          } else {
            weights[from] += step;
            weights[to] -= step;
          }
        }
      }
    }
  }
  if (best.front() > kWorthwhile * equal) return {};
  return weights;
}

}  // namespace tombolo::collectives
