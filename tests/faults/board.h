// State that the runner of faults and the two ends of a transfer share, in memory that all three have mapped.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"

namespace tombolo::faults {

inline constexpr std::size_t kMostConnections = 16;

enum class EndState : std::uint32_t { kStarting, kFlowing, kFinished, kFailed };

/// The state of one end, which alone writes it, except that the runner writes `pause` and resets the two
/// longest times.
struct EndBoard {
  std::atomic<EndState> state{EndState::kStarting};
  std::atomic<std::uint64_t> messages{0}, bytes{0};  ///< received, every byte compared
  std::atomic<std::int64_t> last_completion{
      0};  ///< time of the last completed receive; nanoseconds of the monotonic clock
  std::atomic<std::int64_t> longest_gap{0};  ///< between two completed receives, since it was set to 0
  std::atomic<std::int64_t> longest_pass{
      0};  ///< of the end's loop, since it was set to 0; a long one is the machine's doing
  std::atomic<std::uint64_t> breaks{0}, rejoins{0}, replayed{0};    ///< as in transport::Statistics
  std::atomic<bool> senders_done{false};                            ///< `sent` is final, all of it completed
  std::array<std::atomic<std::uint64_t>, kMostConnections> sent{};  ///< messages posted, by connection
  std::atomic<bool> pause{false};                                   ///< post no receives
  std::atomic<std::int64_t> failed_at{0};
  std::atomic<int> cause{0};  ///< the Cause of the failure
  char error[2048] = {};      ///< valid from kFailed on

  void fail(Cause why, std::string_view text) noexcept {
    text.copy(error, sizeof error - 1);
    cause = static_cast<int>(why);
    failed_at = Clock::steady().now().time_since_epoch().count();
    state = EndState::kFailed;
  }
};

struct Board {
  std::atomic<bool> stop{false};  ///< post no more sends; finish
  std::array<EndBoard, 2> ends;
};

/// Memory that forked children share with their parent.
class SharedBoard {
 public:
  SharedBoard() {
    void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail_errno(errno, "shared memory");
    board_ = new (at) Board;
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board* operator->() const noexcept { return board_; }
  Board& operator*() const noexcept { return *board_; }

 private:
  Board* board_;
};

}  // namespace tombolo::faults
