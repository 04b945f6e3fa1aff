// Holds what calls attain between hosts against what was found of the network, so that a communicator notices
// where that was wrong, or is so no longer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/discovery/islands.h"

namespace tombolo::collectives {

/// What a rank received from other hosts while one call was carried out.
struct ReceivedInCall {
  std::uint64_t own_island = 0, other_islands = 0;  ///< bytes, from the hosts of each
  /// How long by what was found the bytes should have taken at least that came from one rank of another
  /// island: of those for which it is longest.
  double expected_seconds = 0;
};

/// What became of the network's figures.
enum class NetworkVerdict : std::uint8_t {
  kAsFound,
  kSlower,  ///< the calls attained less than a kMuchNearer-th of what was found
  kNearer,  ///< two hosts of unlike islands attained more than kMuchNearer times what was found
};

/// Each rank of a communicator that has found islands has one. Calls that are large enough to show rates
/// count alike on all ranks; after kFirstCheck of them, and then ever more rarely while nothing has changed,
/// all ranks exchange their reports and come to the same verdict. One thread at a time.
class NetworkWatch {
 public:
  /// Islands are numbered as in `found`. `renewed`: how often the job has measured again, which makes the
  /// first check four times as rare each time.
  NetworkWatch(Islands found, std::vector<int> island_of_rank, std::vector<std::size_t> host_of_rank,
               std::size_t rank, std::size_t renewed = 0);

  /// Whether a call whose longest buffer has so many bytes counts.
  bool shows_rates(std::size_t bytes) const noexcept { return bytes >= least_bytes_; }
  /// The number of a call that counts, which is the same on all ranks.
  std::size_t count() noexcept;
  /// Whether all ranks are to exchange their reports before the next call.
  bool due() const noexcept { return counted_ >= next_check_; }

  /// From where bytes came that were received from each rank.
  ReceivedInCall sort(std::span<const std::uint64_t> bytes_by_rank) const noexcept;
  /// In that time a call was carried out that counts, with no other one beside it. A call that is not noted
  /// says nothing.
  void note(std::size_t call, Duration took, const ReceivedInCall& received) noexcept;

  static constexpr std::size_t kKept = 4, kReportFloats = 4 * kKept + 1;
  /// What this rank says of the last kKept calls that count. The next check is then due after four times as
  /// many. `may_measure`: whether this rank could.
  std::array<float, kReportFloats> begin_check(bool may_measure) noexcept;
  struct Judgement {
    NetworkVerdict verdict = NetworkVerdict::kAsFound;
    std::string why;  ///< in words; empty with kAsFound
  };
  /// `reports` of all ranks, one after the other: the same on every rank, and so is what follows. As found
  /// where a rank could not measure. Of the calls, those count that all ranks have noted.
  Judgement judge(std::span<const float> reports) const;

  static constexpr std::size_t kFirstCheck = 8;

 private:
  struct Noted {
    Duration took{};  ///< 0: not noted
    ReceivedInCall received;
  };
  double expected_rate(int from, int to) const noexcept;

  Islands found_;
  std::vector<int> island_of_rank_;
  std::vector<std::size_t> host_of_rank_;
  std::size_t rank_, hosts_ = 0, least_bytes_ = 0;
  std::size_t counted_ = 0, next_check_ = kFirstCheck;
  std::array<Noted, kKept> noted_{};
};

}  // namespace tombolo::collectives
