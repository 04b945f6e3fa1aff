// Keeps exchanges that measure at the same time in the same round: those between two hosts, each over NICs of
// its own, and, through a coordinator in each process, those of many hosts.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace tombolo::transport::measure {

/// Exchanges that share a line must all load it while any of them is measured. So all begin a round at once,
/// and an exchange that has finished its own measurement goes on loading until the last one has. The leading
/// ends take part, with a thread each; the following ends do what these announce. One more member that
/// exchanges nothing, the coordinator, can join the rounds of several processes: it tells its own process
/// what all have agreed on. Thread-safe.
class RoundBarrier {
 public:
  explicit RoundBarrier(std::size_t members) noexcept : members_(members) {}

  /// One exchange's membership. Its destructor leaves the barrier, so that the others do not wait for an
  /// exchange that failed. Used by one thread.
  class Member {
   public:
    explicit Member(RoundBarrier& barrier) noexcept : barrier_(barrier) {}
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Waits until all members have arrived, then begins a round. It has no deadline, because the members'
    /// exchanges have theirs. Returns true where any member wants `another` round; for the first one all do.
    bool arrive_and_wait(bool another);
    /// To be called when this member has measured in this round.
    void finish();
    /// Whether all members have finished this round.
    bool all_finished() const;

    /// Waits until all members but this one have arrived for the next round; true where one of them wants it.
    bool wait_until_others_arrive();
    /// Waits until all members but this one have finished the round.
    void wait_until_others_finish();

   private:
    RoundBarrier& barrier_;
    bool finished_ = false;
  };

 private:
  void begin_round();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t members_, arrived_ = 0, finished_ = 0, round_ = 0;
  bool another_ = false;          ///< whether one of those that have arrived wants another round
  bool another_of_last_ = false;  ///< the answer that the members of the last round got
};

}  // namespace tombolo::transport::measure
