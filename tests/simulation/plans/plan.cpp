#include "tests/simulation/plans/plan.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "tests/simulation/plans/draw.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Fault draw_errno(Draw& draw, Fault fault) {
  struct Failure {
    Call call;
    int error;
  };
  constexpr std::array kFailures{Failure{Call::kSocket, EMFILE},       Failure{Call::kSocket, ENOMEM},
                                 Failure{Call::kSocket, ENOBUFS},      Failure{Call::kAccept, EMFILE},
                                 Failure{Call::kAccept, ECONNABORTED}, Failure{Call::kAccept, ENOBUFS},
                                 Failure{Call::kAccept, ENOMEM},       Failure{Call::kSend, ENOBUFS},
                                 Failure{Call::kSend, ENOMEM},         Failure{Call::kSend, ETIMEDOUT},
                                 Failure{Call::kSend, EINTR},          Failure{Call::kReceive, ETIMEDOUT},
                                 Failure{Call::kReceive, ENOMEM},      Failure{Call::kReceive, ENOBUFS},
                                 Failure{Call::kReceive, EINTR},       Failure{Call::kEpollControl, ENOMEM},
                                 Failure{Call::kEpollControl, ENOSPC}, Failure{Call::kConnect, ENETUNREACH},
                                 Failure{Call::kConnect, ETIMEDOUT},   Failure{Call::kConnect, ENOBUFS}};
  const Failure failure = draw.one_of(kFailures);
  fault.call = failure.call;
  fault.error = failure.error;
  fault.times = 1 + static_cast<int>(draw.below(3));
  return fault;
}

void draw_time(Draw& draw, const Plan& plan, Fault& fault) {
  // Some come at once or soon after the one before, while that is being repaired.
  if (!plan.faults.empty() && draw.once_in(3)) {
    const Fault& before = plan.faults.back();
    fault.from = before.from;
    fault.at = before.at + (draw.once_in(3) ? Duration::zero() : draw.duration(milliseconds(60)));
  } else if (draw.once_in(5)) {
    fault.from = Fault::From::kFirstClose;
    fault.at = draw.once_in(2) ? draw.duration(milliseconds(1)) : draw.duration(milliseconds(50));
  } else {
    // Most come while the connection is made or carries its first messages.
    fault.at = draw.once_in(2) ? draw.duration(milliseconds(2)) : draw.duration(milliseconds(400));
  }
}

Fault draw_fault(Draw& draw, const Plan& plan, Duration& left) {
  using Kind = Fault::Kind;
  constexpr std::array kKinds{Kind::kReset,     Kind::kReset,   Kind::kReset,      Kind::kHalfReset,
                              Kind::kHalfReset, Kind::kSilence, Kind::kSilentHost, Kind::kSlow,
                              Kind::kStop,      Kind::kErrno,   Kind::kErrno,      Kind::kUnreachable,
                              Kind::kPause};
  Fault fault;
  fault.kind = draw.one_of(kKinds);
  draw_time(draw, plan, fault);
  fault.host = static_cast<unsigned>(draw.below(2));
  fault.nic = static_cast<unsigned>(draw.below(plan.nics));
  fault.stream = static_cast<unsigned>(draw.below(6));
  switch (fault.kind) {
    case Kind::kSilence:
    case Kind::kSilentHost:
    case Kind::kUnreachable:
    case Kind::kSlow:
    case Kind::kStop:
    case Kind::kPause:
      fault.lasts = draw.once_in(2) ? draw.duration(milliseconds(5)) : draw.duration(kIdleTimeout / 4);
      fault.lasts = std::min(fault.lasts, left);
      left -= fault.lasts;
      break;
    case Kind::kErrno:
      return draw_errno(draw, fault);
    default:
      break;
  }
  return fault;
}

}  // namespace

bool Fault::may_refuse() const noexcept {
  if (kind != Kind::kErrno || error == EINTR) return false;
  switch (call) {
    case Call::kSocket:
    case Call::kEpollControl:
    case Call::kShareMemory:
      return true;
    case Call::kConnect:
      return error != ENETUNREACH && error != ETIMEDOUT;
    case Call::kAccept:
    case Call::kSend:
    case Call::kReceive:
    case Call::kReadMemory:
      return false;
  }
  return true;
}

bool Fault::breaks_streams() const noexcept {
  return kind == Kind::kReset || kind == Kind::kHalfReset || (kind == Kind::kErrno && error != EINTR);
}

bool Plan::may_lack_a_way() const noexcept {
  return over == Over::kShm && !or_tcp && std::ranges::any_of(faults, [](const Fault& one) {
           return one.kind == Fault::Kind::kErrno || one.kind == Fault::Kind::kSilence;
         });
}

bool Plan::survivable() const noexcept {
  return std::ranges::none_of(faults, [](const Fault& one) { return one.terminal(); });
}

const char* name_of(Over over) {
  return over == Over::kTcp ? "tcp" : "shm";
}

Plan draw_network(std::uint64_t seed, Over over) {
  Plan plan = draw_plan(seed, over);
  const Plan usual;
  plan.messages.clear();
  plan.window = usual.window;
  plan.wait_before_close = usual.wait_before_close;
  for (Fault& fault : plan.faults)
    if (fault.kind == Fault::Kind::kGiveUp) fault.kind = Fault::Kind::kKill;
  return plan;
}

Plan draw_plan(std::uint64_t seed, Over over) {
  if (over == Over::kShm) return draw_shm_plan(seed);
  Draw draw(seed);
  Plan plan;
  plan.seed = seed;
  plan.nics = 1 + static_cast<unsigned>(draw.once_in(3));
  plan.streams = draw.one_of(std::array{0, 1, 1, 2, 3, 4});
  plan.tls = draw.once_in(5);
  plan.checksums = draw.once_in(4);
  plan.chunk = draw.one_of(std::array<std::size_t, 5>{0, 0, 1000, 4096, 32768});
  plan.replay = draw.one_of(std::array<std::size_t, 3>{0, 4096, 65536});
  plan.short_one_in = draw.one_of(std::array{0U, 2U, 10U});
  plan.delay = draw.one_of(
      std::array<Duration, 4>{microseconds(5), microseconds(50), milliseconds(1), milliseconds(20)});
  plan.bytes_per_second = draw.one_of(std::array{1e7, 1e8, 1e9});
  for (unsigned& window : plan.window) window = 1 + static_cast<unsigned>(draw.below(8));
  plan.wait_before_close = draw.once_in(2);
  const std::uint64_t messages = 1 + draw.below(24);
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    Message message;
    message.from = static_cast<unsigned>(draw.below(2));
    message.size = draw_size(draw);
    // What takes longer than a second or so only makes schedules fewer.
    if (bytes + message.size > 800'000) message.size %= 5000;
    bytes += message.size;
    if (draw.once_in(8)) message.pause = draw.duration(milliseconds(100));
    plan.messages.push_back(message);
  }
  Duration left = kMostTaken;
  for (std::uint64_t faults = draw.below(6); faults != 0; --faults)
    plan.faults.push_back(draw_fault(draw, plan, left));
  if (draw.once_in(8)) {
    Fault last;
    last.kind = draw.once_in(3) ? Fault::Kind::kCutForGood : Fault::Kind::kKill;
    draw_time(draw, plan, last);
    last.host = static_cast<unsigned>(draw.below(2));
    plan.faults.push_back(last);
  }
  return plan;
}

}  // namespace tombolo::simulation
