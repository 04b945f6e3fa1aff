#include "collectives/discovery/network_watch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/units.h"

namespace tombolo::collectives {
namespace {

// Where less is sent, latencies and processors hide what the links could do.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;
constexpr double kLeastLatencies = 16, kLatenciesPerHost = 4;

/// What one rank says of one call.
struct OfCall {
  double took = 0, own_island = 0, other_islands = 0, expected = 0;  // seconds and bytes; took 0: nothing
};

OfCall read(std::span<const float> reports, std::size_t rank, std::size_t kept) {
  const auto one = reports.subspan(rank * NetworkWatch::kReportFloats + 4 * kept, 4);
  return {one[0], one[1], one[2], one[3]};
}

}  // namespace

NetworkWatch::NetworkWatch(Islands found, std::vector<int> island_of_rank,
                           std::vector<std::size_t> host_of_rank, std::size_t rank, std::size_t renewed)
    : found_(std::move(found)),
      island_of_rank_(std::move(island_of_rank)),
      host_of_rank_(std::move(host_of_rank)),
      rank_(rank) {
  for (std::size_t time = 0; time < renewed; ++time) next_check_ *= 4;
  hosts_ = *std::ranges::max_element(host_of_rank_) + 1;
  const bool apart = found_.count > 1;
  const double rate = apart ? found_.between_bytes_per_second : found_.inside_bytes_per_second;
  const double latency = apart ? found_.between_latency_seconds : found_.inside_latency_seconds;
  // A ring sends each piece to all hosts in turn.
  const double latencies = std::max(kLeastLatencies, kLatenciesPerHost * static_cast<double>(hosts_));
  least_bytes_ = std::max(kLeastBytes, static_cast<std::size_t>(latencies * rate * latency));
}

double NetworkWatch::expected_rate(int from, int to) const noexcept {
  if (!found_.between.empty()) {
    const double known = found_.between[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    if (known > 0) return known;
  }
  return found_.between_bytes_per_second;
}

ReceivedInCall NetworkWatch::sort(std::span<const std::uint64_t> bytes_by_rank) const noexcept {
  ReceivedInCall sorted;
  const int own = island_of_rank_[rank_];
  for (std::size_t peer = 0; peer < bytes_by_rank.size(); ++peer) {
    if (host_of_rank_[peer] == host_of_rank_[rank_]) continue;
    const std::uint64_t bytes = bytes_by_rank[peer];
    if (island_of_rank_[peer] == own) {
      sorted.own_island += bytes;
      continue;
    }
    sorted.other_islands += bytes;
    if (const double rate = expected_rate(island_of_rank_[peer], own); rate > 0)
      sorted.expected_seconds = std::max(sorted.expected_seconds, static_cast<double>(bytes) / rate);
  }
  return sorted;
}

std::size_t NetworkWatch::count() noexcept {
  ++counted_;
  noted_[counted_ % kKept] = {};
  return counted_;
}

void NetworkWatch::note(std::size_t call, Duration took, const ReceivedInCall& received) noexcept {
  if (call + kKept > counted_) noted_[call % kKept] = {took, received};
}

std::array<float, NetworkWatch::kReportFloats> NetworkWatch::begin_check(bool may_measure) noexcept {
  next_check_ = 4 * counted_;
  std::array<float, kReportFloats> all{};
  for (std::size_t i = 0; i < kKept; ++i) {
    const Noted& one = noted_[i];
    all[4 * i] = static_cast<float>(to_seconds(one.took));
    all[4 * i + 1] = static_cast<float>(one.received.own_island);
    all[4 * i + 2] = static_cast<float>(one.received.other_islands);
    all[4 * i + 3] = static_cast<float>(one.received.expected_seconds);
  }
  all.back() = may_measure ? 1 : 0;
  return all;
}

NetworkWatch::Judgement NetworkWatch::judge(std::span<const float> reports) const {
  const std::size_t ranks = host_of_rank_.size();
  const bool apart = found_.count > 1;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (reports[(rank + 1) * kReportFloats - 1] <= 0) return {};
  }
  // Those who receive at the same time from outside share what joins their hosts, or their islands.
  const std::size_t groups = apart ? static_cast<std::size_t>(found_.count) : hosts_;
  double attained = 0, nearer = 0;
  for (std::size_t kept = 0; kept < kKept; ++kept) {
    // A rank that came early waited for the others, which says nothing of the network.
    double shortest = std::numeric_limits<double>::infinity(), longest = 0, expected = 0;
    bool noted_by_all = true;
    std::vector<double> bytes(groups);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const OfCall one = read(reports, rank, kept);
      noted_by_all &= one.took > 0;
      longest = std::max(longest, one.took);
      expected = std::max(expected, one.expected);
      const double received = apart ? one.other_islands : one.own_island;
      if (one.took <= 0 || received <= 0) continue;
      shortest = std::min(shortest, one.took);
      bytes[apart ? static_cast<std::size_t>(island_of_rank_[rank]) : host_of_rank_[rank]] += received;
    }
    if (!noted_by_all) continue;
    // What came before a rank began cannot have come before the first one did.
    nearer = std::max(nearer, expected / longest);
    attained = std::max(attained, *std::ranges::max_element(bytes) / shortest);
  }
  if (apart && nearer > kMuchNearer)
    return {NetworkVerdict::kNearer,
            fmt::format("a host received {:.1f} times as fast from another island as was found", nearer)};
  const double found = apart ? found_.between_bytes_per_second : found_.inside_bytes_per_second;
  if (attained > 0 && kMuchNearer * attained < found)
    return {NetworkVerdict::kSlower,
            fmt::format("calls attained {} between {}, where {} were found", format_bit_rate(attained),
                        apart ? "islands" : "hosts", format_bit_rate(found))};
  return {};
}

}  // namespace tombolo::collectives
