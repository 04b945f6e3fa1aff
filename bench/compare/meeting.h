// Where the ranks of one job meet outside the library that is measured: a barrier, and what they tell each
// other, in a file that all of them map. It is the same for every library, so that none is measured with its
// own barrier.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace compare {

using Clock = std::chrono::steady_clock;

inline constexpr int kMostRanks = 64;
inline constexpr int kMostIterations = 4096;

/// What a rank does until the others come: it looks again and again, alone on its processor; it lets others
/// run between two looks; or it sleeps, which is for libraries whose own waits sleep: their threads would
/// wait a whole time slice for ranks that look.
enum class Waiting { kSpins, kYields, kSleeps };

/// One rank's place at a meeting of `ranks` ranks of this machine.
class Meeting {
 public:
  /// `file` is made where it is not there yet, and must be new for each job; whoever chose it removes it.
  Meeting(const std::string& file, int rank, int ranks, Waiting waiting)
      : rank_(rank), ranks_(ranks), waiting_(waiting) {
    if (ranks > kMostRanks) throw std::runtime_error(std::to_string(ranks) + " ranks: at most 64 can meet");
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0 || ::ftruncate(descriptor, sizeof(Shared)) != 0)
      throw std::runtime_error("cannot make " + file + ": " + std::strerror(errno));
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + file + ": " + std::strerror(errno));
    shared_ = static_cast<Shared*>(memory);
  }
  ~Meeting() { ::munmap(shared_, sizeof(Shared)); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Returns once every rank has called it. Throws after two minutes.
  void wait() {
    const std::uint32_t round = shared_->round.load(std::memory_order_acquire);
    if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
      shared_->arrived.store(0, std::memory_order_relaxed);
      shared_->round.store(round + 1, std::memory_order_release);
      if (waiting_ == Waiting::kSleeps) futex(FUTEX_WAKE, INT_MAX, nullptr);
      return;
    }
    const Clock::time_point begin = Clock::now();
    for (int looks = 1; shared_->round.load(std::memory_order_acquire) == round; ++looks) {
      Clock::duration waited{};
      if (waiting_ == Waiting::kSleeps || looks % 64 == 0) waited = Clock::now() - begin;
      if (waited > std::chrono::minutes(2))
        throw std::runtime_error("rank " + std::to_string(rank_) +
                                 " waited two minutes for the other ranks; they ended, or hang");
      if (waiting_ == Waiting::kSleeps) {
        const timespec second{1, 0};
        futex(FUTEX_WAIT, static_cast<int>(round), &second);
      } else if (waited >
                 std::chrono::milliseconds(1)) {  // others are at work for long: they have the processors
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      } else if (looks % (waiting_ == Waiting::kYields ? 16 : 4096) == 0) {
        ::sched_yield();
      }
    }
  }

  /// The largest of what the ranks pass. Collective.
  template <typename Number>
  Number largest(Number mine) {
    shared_->told[static_cast<std::size_t>(rank_)] = static_cast<double>(mine);
    wait();
    double most = shared_->told[0];
    for (int rank = 1; rank < ranks_; ++rank)
      most = std::max(most, shared_->told[static_cast<std::size_t>(rank)]);
    wait();
    return static_cast<Number>(most);
  }

  /// This rank's seconds of every iteration, for the others to read after the next wait().
  std::array<double, kMostIterations>& seconds_of(int rank) {
    return shared_->seconds[static_cast<std::size_t>(rank)];
  }

 private:
  struct Shared {  // begins as zeros
    alignas(64) std::atomic<std::uint32_t> arrived;
    alignas(64) std::atomic<std::uint32_t> round;
    alignas(64) std::array<double, kMostRanks> told;
    std::array<std::array<double, kMostIterations>, kMostRanks> seconds;
  };
  void futex(int operation, int number, const timespec* timeout) {
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&shared_->round), operation, number, timeout,
              nullptr, 0);
  }

  Shared* shared_;
  int rank_, ranks_;
  Waiting waiting_;
};

}  // namespace compare
