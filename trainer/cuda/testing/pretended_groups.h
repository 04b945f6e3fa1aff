// What joins pretended devices: groups of ranks that are threads of one process, and the rules by which real
// ones must be used.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "trainer/model/stage_group.h"

namespace tombolo::trainer::cuda {

/// The ranks of one group and what they have summed so far. Breaking a rule throws kInternal on the rank that
/// does so: sums of other lengths, or in another order, than another rank's; use by two threads. Any thread
/// may call any member.
class PretendedGroupState {
 public:
  explicit PretendedGroupState(int size);

  /// Returns when all ranks have joined; kTimeout naming those that have not.
  void join(const GroupMember& member);
  /// This rank's next sum has been put on its stream, and is of so many numbers: its number.
  std::size_t announce(int rank, std::size_t count);
  /// The device has come to that sum and reads these numbers.
  void contribute(int rank, std::size_t sum, std::span<const float> values);
  /// The result once all ranks have contributed, added in the order of ranks; to be taken once by each.
  std::optional<std::vector<float>> result(std::size_t sum);
  /// A rank has given up: the others find kRemote.
  void give_up(int rank, const std::string& reason);
  bool given_up(int rank) const;
  /// Throws kRemote where another rank gave up, kAborted where this one did.
  void check(int rank) const;

 private:
  struct Rank {
    bool joined = false;
    std::optional<std::thread::id> user;
    std::size_t announced = 0;
    std::optional<std::string> given_up;
  };
  struct Sum {
    std::size_t count = 0;
    int first_rank = 0;  ///< which said so
    std::vector<std::vector<float>> values;
    std::size_t contributed = 0, taken = 0;
  };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::map<std::size_t, Sum> sums_;  ///< by number; forgotten once all ranks have the result
};

/// What the devices of one test share: its groups.
class PretendedNccl {
 public:
  GroupId make_id();
  /// The same for all ranks that name the same id. Throws kInvalidUsage for an id that was not made here.
  std::shared_ptr<PretendedGroupState> group(const GroupId& id, int size);
  std::size_t groups() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::array<char, 128>, std::shared_ptr<PretendedGroupState>> groups_;
};

}  // namespace tombolo::trainer::cuda
