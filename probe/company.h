// Exchanges that count at the same time: those between two hosts, each over NICs of its own, and, with a
// conductor in each process, those of many hosts.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace tombolo::probe {

/// Keeps the rounds of several exchanges together, so that none is measured while it has to itself what it
/// shares with the others: all begin a round at once, and whoever is through loads its line until the last
/// is. For the leading ends, a thread each; the others follow them. A further member that exchanges nothing
/// may join companies of several processes: it tells its own what all have come to. Thread-safe.
class Company {
 public:
  explicit Company(std::size_t members) noexcept : members_(members) {}

  /// One exchange's part in it. Leaves when it is destroyed, so that the others need not wait for one that
  /// failed. One thread.
  class Member {
   public:
    explicit Member(Company& company) noexcept : company_(company) {}
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Waits for the others, whose exchanges have deadlines. True where one of all wants `another` round, as
    /// all do with the first.
    bool meet(bool another);
    /// This one is through with the round.
    void finish();
    /// All are.
    bool all_finished() const;

    /// Waits until all but this one wait for the next round; true where one of them wants it.
    bool others_meet();
    /// Waits until all but this one are through with the round.
    void others_finish();

   private:
    Company& company_;
    bool finished_ = false;
  };

 private:
  void release();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t members_, here_ = 0, finished_ = 0, round_ = 0;
  bool another_ = false;          // as far as members have come
  bool another_of_last_ = false;  // what the last round's members were told
};

}  // namespace tombolo::probe
