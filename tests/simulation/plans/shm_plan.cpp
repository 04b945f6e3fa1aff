// Plans of two processes that share memory.
#include <algorithm>
#include <array>
#include <cerrno>

#include "tests/simulation/plans/draw.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ShmKind = Fault::Kind;
using transport::shm::Fetch;

void draw_shm_errno(Draw& draw, Fault& fault) {
  struct Failure {
    Call call;
    int error;
  };
  constexpr std::array kFailures{Failure{Call::kReadMemory, EPERM},   Failure{Call::kReadMemory, EFAULT},
                                 Failure{Call::kReadMemory, ESRCH},   Failure{Call::kReadMemory, ENODATA},
                                 Failure{Call::kReadMemory, EPERM},   Failure{Call::kReadMemory, EFAULT},
                                 Failure{Call::kShareMemory, EMFILE}, Failure{Call::kShareMemory, ENOMEM},
                                 Failure{Call::kSocket, EMFILE},      Failure{Call::kAccept, EMFILE},
                                 Failure{Call::kConnect, ETIMEDOUT},  Failure{Call::kEpollControl, ENOMEM}};
  const Failure failure = draw.one_of(kFailures);
  fault.call = failure.call;
  fault.error = failure.error;
  fault.times = 1 + static_cast<int>(draw.below(3));
}

/// When it strikes. Most do in the middle of what a process does with shared memory.
void draw_shm_time(Draw& draw, const Plan& plan, Fault& fault) {
  if (draw.once_in(6)) {
    fault.from = Fault::From::kFirstClose;
    fault.at = draw.duration(draw.once_in(2) ? milliseconds(1) : milliseconds(50));
  } else if (!plan.faults.empty() && draw.once_in(5)) {
    fault.from = plan.faults.back().from;
    fault.at = plan.faults.back().at + draw.duration(milliseconds(5));
  } else if (draw.once_in(3)) {
    fault.at = draw.duration(draw.once_in(2) ? milliseconds(2) : milliseconds(100));
  } else {
    fault.step = 1 + draw.below(std::uint64_t{1} << (3 + draw.below(9)));
  }
}

Fault draw_shm_fault(Draw& draw, const Plan& plan, Duration& left) {
  constexpr std::array kKinds{ShmKind::kStop,  ShmKind::kStop,       ShmKind::kStop,  ShmKind::kPause,
                              ShmKind::kErrno, ShmKind::kErrno,      ShmKind::kErrno, ShmKind::kSilence,
                              ShmKind::kSlow,  ShmKind::kUnreachable};
  Fault fault;
  fault.kind = draw.one_of(kKinds);
  draw_shm_time(draw, plan, fault);
  fault.host = static_cast<unsigned>(draw.below(2));
  if (fault.kind == ShmKind::kErrno) {
    draw_shm_errno(draw, fault);
  } else {
    fault.lasts = draw.duration(draw.once_in(2) ? milliseconds(5) : kIdleTimeout / 4);
    fault.lasts = std::min(fault.lasts, left);
    left -= fault.lasts;
  }
  return fault;
}

void draw_shm_messages(Draw& draw, Plan& plan) {
  // Few of any size, or so many small or large ones that they fill the ring or the area.
  const std::uint64_t kind = draw.below(8);
  const std::uint64_t messages = kind == 0 ? 50 + draw.below(200) : 1 + draw.below(kind == 1 ? 16 : 24);
  const bool one_way = draw.once_in(3);
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    Message message;
    message.from = one_way ? 0 : static_cast<unsigned>(draw.below(2));
    message.size = kind == 0 ? draw.below(9000) : kind == 1 ? draw.below(kLongestMessage) : draw_size(draw);
    if (bytes + message.size > 4'000'000) message.size %= 5000;
    bytes += message.size;
    if (draw.once_in(8))
      message.pause = draw.duration(draw.once_in(2) ? microseconds(100) : milliseconds(100));
    plan.messages.push_back(message);
  }
}

}  // namespace

Plan draw_shm_plan(std::uint64_t seed) {
  Draw draw(seed ^ 0x73686d);
  Plan plan;
  plan.seed = seed;
  plan.over = Over::kShm;
  plan.fetch =
      draw.one_of(std::array{Fetch::kNever, Fetch::kWhereCheaper, Fetch::kWhereCheaper, Fetch::kAlways});
  plan.or_tcp = draw.once_in(4);
  plan.lap = draw.one_of(std::array<std::uint64_t, 3>{1, std::uint64_t{1} << 20, std::uint64_t{8} << 20});
  plan.yield_one_in = draw.one_of(std::array{1U, 2U, 5U, 30U});
  plan.early_one_in = draw.one_of(std::array{0U, 2U, 10U});
  plan.short_one_in = draw.one_of(std::array{0U, 2U, 10U});
  plan.delay = draw.one_of(std::array<Duration, 3>{microseconds(5), microseconds(50), milliseconds(1)});
  for (unsigned& window : plan.window)
    window = 1 + static_cast<unsigned>(draw.below(draw.once_in(4) ? 64 : 8));
  plan.wait_before_close = draw.once_in(2);
  draw_shm_messages(draw, plan);
  Duration left = kMostTaken;
  for (std::uint64_t faults = draw.below(5); faults != 0; --faults)
    plan.faults.push_back(draw_shm_fault(draw, plan, left));
  if (draw.once_in(3)) {
    Fault last;
    last.kind = draw.one_of(std::array{ShmKind::kKill, ShmKind::kKill, ShmKind::kGiveUp, ShmKind::kResetAll});
    draw_shm_time(draw, plan, last);
    last.host = static_cast<unsigned>(draw.below(2));
    plan.faults.push_back(last);
  }
  return plan;
}

}  // namespace tombolo::simulation
