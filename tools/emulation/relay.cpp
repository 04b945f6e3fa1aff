#include "tools/emulation/relay.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tombolo::emulation {
namespace {

/// The most frames that are taken or delivered before the other side follows.
constexpr int kBatch = 64;

struct RelaySide {
  const Descriptor& tap;
  DelayLine line;  ///< carries the frames that came in on this side
};

/// Takes the frames that have arrived; true where there were any.
bool take_frames(RelaySide& side) {
  for (int taken = 0; taken < kBatch; ++taken) {
    auto room = side.line.space();
    ssize_t got = ::read(side.tap.get(), room.data(), room.size());
    if (got <= 0) return taken > 0;
    side.line.enter(static_cast<std::size_t>(got), Clock::steady().now());
  }
  return true;
}

bool give_frames(DelayLine& line, const Descriptor& to) {
  const TimePoint now = Clock::steady().now();
  for (int given = 0; given < kBatch; ++given) {
    auto frame = line.front(now);
    if (frame.empty()) return given > 0;
    // A device that is down refuses the frame, and the packet is lost as with a pulled cable.
    [[maybe_unused]] ssize_t put = ::write(to.get(), frame.data(), frame.size());
    line.pop();
  }
  return true;
}

double processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Carries out one order, if there is one. False when the owner of the emulation has ended.
bool obey(const Descriptor& orders, std::array<RelaySide, 2>& sides) {
  RelayOrder order{};
  ssize_t got = ::recv(orders.get(), &order, sizeof order, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  if (order != RelayOrder::kReport) {
    for (RelaySide& side : sides) side.line.cut(order == RelayOrder::kCut);
  }
  RelayReport report{{sides[0].line.counters(), sides[1].line.counters()}, processor_time()};
  return ::send(orders.get(), &report, sizeof report, MSG_NOSIGNAL) == sizeof report;
}

/// Sleeps until a frame or an order comes, or until a frame on the line is due.
void rest(const Descriptor& orders, const std::array<RelaySide, 2>& sides, bool& ordered) {
  std::array<pollfd, 3> wait{
      {{sides[0].tap.get(), POLLIN, 0}, {sides[1].tap.get(), POLLIN, 0}, {orders.get(), POLLIN, 0}}};
  std::optional<TimePoint> due;
  for (const RelaySide& side : sides) {
    if (auto next = side.line.next(); next && (!due || *next < *due)) due = next;
  }
  timespec limit{};
  if (due) {
    auto left = std::max(Duration::zero(), *due - Clock::steady().now()).count();
    limit = {left / 1'000'000'000, left % 1'000'000'000};
  }
  // The kernel's timer slack of 50 us makes frames that are due at nearly the same time come out together.
  ::ppoll(wait.data(), wait.size(), due ? &limit : nullptr, nullptr);
  ordered = wait[2].revents != 0;
}

}  // namespace

Descriptor make_tap(const std::string& interface) {
  constexpr const char* kDevice = "/dev/net/tun";
  Descriptor tap(::open(kDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  int header = kFrameHeader;
  if (!tap || ::ioctl(tap.get(), TUNSETIFF, &request) != 0 ||
      ::ioctl(tap.get(), TUNSETVNETHDRSZ, &header) != 0 ||
      // Super-packets are passed whole, because a system call then carries up to 64 KiB.
      ::ioctl(tap.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) {
    fail(Cause::kUnsupported,
         "a link with a round trip or loss needs a TAP device, and {} gave none for '{}': {} (it must be "
         "there, "
         "and this user may open it)",
         kDevice, interface, errno_text(errno));
  }
  return tap;
}

void run_relay(const Descriptor& first, const Descriptor& second, const Descriptor& orders,
               const LineOptions& options, double bits_per_second_back) {
  LineOptions back = options;
  back.bits_per_second = bits_per_second_back;
  back.seed = options.seed + 1;
  std::array<RelaySide, 2> sides{{{first, DelayLine(options)}, {second, DelayLine(back)}}};
  bool ordered = false;
  // Orders are also looked for while the relay never rests, though less often.
  for (unsigned turn = 0;; ++turn) {
    if ((ordered || turn % 64 == 0) && !obey(orders, sides)) return;
    bool moved = take_frames(sides[0]);
    moved |= take_frames(sides[1]);
    moved |= give_frames(sides[0].line, second);
    moved |= give_frames(sides[1].line, first);
    ordered = false;
    if (!moved) rest(orders, sides, ordered);
  }
}

}  // namespace tombolo::emulation
