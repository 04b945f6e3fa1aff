// What a simulated run does: data, so that a failing run can be repeated, printed and made shorter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "tests/simulation/pretended/pretended_kernel.h"
#include "transport/shm/options.h"

namespace tombolo::simulation {

struct Fault {
  enum class Kind {
    kReset,        ///< a stream is reset at both ends
    kHalfReset,    ///< at one end; the other learns it when it sends
    kSilence,      ///< nothing gets through between the NICs of one number, for `lasts`
    kSilentHost,   ///< nothing gets through between any of them, for `lasts`
    kUnreachable,  ///< nobody answers connects to `host`, for `lasts`
    kSlow,         ///< the path of `nic` has a hundredth of its rate, and takes 20 ms longer, for `lasts`
    kStop,         ///< the process of `host` makes no calls, for `lasts`
    kErrno,        ///< the next `times` calls of a kind on `host` fail with `error`
    kPause,        ///< time jumps by `lasts`
    // After these the connection cannot go on.
    kKill,        ///< the process of `host` dies
    kCutForGood,  ///< all paths fall silent for ever
    kResetAll,    ///< all streams are reset at both ends, of which shared memory needs one
    kGiveUp       ///< the owner on `host` closes its connection, whatever is under way
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kGiveUp) + 1;
  /// What `at` counts from.
  enum class From {
    kStart,
    kFirstClose  ///< when an owner first begins to close its connection
  };
  Kind kind = Kind::kReset;
  From from = From::kStart;
  Duration at{};
  /// Where it is not 0: the fault strikes in the middle of what `host` does with shared memory, at its so
  /// manieth step there (transport/shm/steps.h), and not by time.
  std::uint64_t step = 0;
  unsigned host = 0, nic = 0, stream = 0;
  Duration lasts{};
  Call call = Call::kSend;
  int error = 0, times = 0;
  bool terminal() const noexcept { return kind >= Kind::kKill; }
  /// Whether it may keep a process from being set up, or a connection from being made: what it says is
  /// lacking at a call that is made once. Other errors are survived, because the call or the attempt is made
  /// again.
  bool may_refuse() const noexcept;
  /// Whether a stream may break by it, with what was under way on it.
  bool breaks_streams() const noexcept;
  friend bool operator==(const Fault&, const Fault&) = default;
};

struct Message {
  unsigned from = 0;  ///< host
  std::size_t size = 0;
  Duration pause{};  ///< that the sender's owner makes before it posts it
  friend bool operator==(const Message&, const Message&) = default;
};

/// What carries the messages.
enum class Over { kTcp, kShm };
/// "tcp", "shm"
const char* name_of(Over over);

/// Two processes, host 0 connects to host 1, and what they send each other.
struct Plan {
  std::uint64_t seed = 0;  ///< of everything that is decided while it runs
  Over over = Over::kTcp;
  unsigned nics = 1;
  int streams = 1;
  bool tls = false, checksums = false;
  std::size_t chunk = 0, replay = 0;
  unsigned short_one_in = 0;  ///< reads and writes are short once in so many calls
  Duration delay = std::chrono::microseconds(50);
  double bytes_per_second = 1e9;
  std::array<unsigned, 2> window{4, 4};  ///< requests that each owner has posted at once, each way
  bool wait_before_close = true;
  // Of shared memory alone, whose two processes are of one host:
  transport::shm::Fetch fetch = transport::shm::Fetch::kWhereCheaper;
  bool or_tcp = false;                         ///< where the two cannot share memory, they may use TCP
  std::uint64_t lap = std::uint64_t{8} << 20;  ///< bytes that are written between two uses of a line
  unsigned yield_one_in = 1;                   ///< the other end goes on at one in so many steps; 0 = at none
  unsigned early_one_in = 0;                   ///< one in so many sleeps ends for nothing; 0 = none
  std::vector<Message> messages;
  std::vector<Fault> faults;

  bool survivable() const noexcept;
  /// Whether set-up may end as "unsupported": shared memory alone may be used, and errors of system calls may
  /// keep the two from agreeing on it, or a silence hides for longer than loopback ever would that a peer has
  /// closed its end, or died.
  bool may_lack_a_way() const noexcept;
  friend bool operator==(const Plan&, const Plan&) = default;
};

inline constexpr Duration kIdleTimeout = std::chrono::seconds(3);
/// All that a plan's faults take away together stays below this, and well below the idle timeout, so that the
/// connection has to live.
inline constexpr Duration kMostTaken = kIdleTimeout / 3;
inline constexpr Duration kConnectDeadline = 4 * kIdleTimeout;
inline constexpr std::size_t kLongestMessage = 512 * 1024;

/// The plan that belongs to a seed: the same on every machine.
Plan draw_plan(std::uint64_t seed, Over over = Over::kTcp);
/// Its faults and settings, without messages, for runs whose connections have owners of their own: none of
/// these gives up because a fault says so.
Plan draw_network(std::uint64_t seed, Over over);
/// The same as draw_plan() for shared memory, which that calls.
Plan draw_shm_plan(std::uint64_t seed);
/// One line per decision, for people.
std::string describe(const Plan& plan);
/// One line of JSON, which decode_plan() reads.
std::string encode(const Plan& plan);
/// Only the messages and faults have to be there; what else is not is as in Plan{}. Throws kInvalidUsage with
/// the field that is wrong; `source` names the text in the message. So do those of the other kinds of plans.
Plan decode_plan(std::string_view text, const std::string& source);

}  // namespace tombolo::simulation
