#include "tests/simulation/plan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>

#include "base/format.h"

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// All that a plan takes away together stays well below the idle timeout, so that the connection has to live.
constexpr Duration kMostTaken = kIdleTimeout / 3;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15U + 1) {}
  /// From 0 to most - 1. Not std::uniform_int_distribution, which differs between libraries.
  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  bool once_in(unsigned times) { return below(times) == 0; }
  Duration duration(Duration most) {
    return Duration(static_cast<Duration::rep>(below(static_cast<std::uint64_t>(most.count()))));
  }
  template <typename T, std::size_t N>
  T one_of(const std::array<T, N>& all) {
    return all[below(N)];
  }

 private:
  std::mt19937_64 random_;
};

std::size_t draw_size(Draw& draw) {
  switch (draw.below(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return 1 + draw.below(64);
    case 3:
    case 4:
      return draw.below(4096);
    case 5:
    case 6:
      return draw.below(40'000);
    default:
      return draw.below(300'000);
  }
}

Fault draw_fault(Draw& draw, const Plan& plan, Duration& left) {
  constexpr std::array kKinds{Fault::Kind::kReset,       Fault::Kind::kReset,     Fault::Kind::kReset,
                              Fault::Kind::kHalfReset,   Fault::Kind::kHalfReset, Fault::Kind::kSilence,
                              Fault::Kind::kUnreachable, Fault::Kind::kStop,      Fault::Kind::kErrno,
                              Fault::Kind::kErrno,       Fault::Kind::kPause};
  Fault fault;
  fault.kind = draw.one_of(kKinds);
  // Most faults come while the connection is made or carries its first messages.
  fault.at = draw.once_in(2) ? draw.duration(milliseconds(2)) : draw.duration(milliseconds(400));
  fault.host = static_cast<unsigned>(draw.below(2));
  fault.nic = static_cast<unsigned>(draw.below(plan.nics));
  fault.stream = static_cast<unsigned>(draw.below(6));
  if (fault.kind == Fault::Kind::kSilence || fault.kind == Fault::Kind::kUnreachable ||
      fault.kind == Fault::Kind::kStop || fault.kind == Fault::Kind::kPause) {
    fault.lasts = draw.once_in(2) ? draw.duration(milliseconds(5)) : draw.duration(kIdleTimeout / 4);
    fault.lasts = std::min(fault.lasts, left);
    left -= fault.lasts;
  }
  if (fault.kind == Fault::Kind::kErrno) {
    struct Failure {
      Call call;
      int error;
    };
    constexpr std::array kFailures{Failure{Call::kSocket, EMFILE},       Failure{Call::kSocket, ENOMEM},
                                   Failure{Call::kAccept, EMFILE},       Failure{Call::kAccept, ECONNABORTED},
                                   Failure{Call::kAccept, ENOBUFS},      Failure{Call::kSend, ENOBUFS},
                                   Failure{Call::kSend, ENOMEM},         Failure{Call::kSend, ETIMEDOUT},
                                   Failure{Call::kReceive, ETIMEDOUT},   Failure{Call::kReceive, ENOMEM},
                                   Failure{Call::kSend, EINTR},          Failure{Call::kReceive, EINTR},
                                   Failure{Call::kEpollControl, ENOMEM}, Failure{Call::kEpollControl, ENOSPC},
                                   Failure{Call::kConnect, ENETUNREACH}};
    const Failure failure = draw.one_of(kFailures);
    fault.call = failure.call;
    fault.error = failure.error;
    fault.times = 1 + static_cast<int>(draw.below(3));
  }
  return fault;
}

}  // namespace

bool Plan::survivable() const noexcept {
  return std::ranges::none_of(faults, [](const Fault& one) { return one.terminal(); });
}

Plan draw_plan(std::uint64_t seed) {
  Draw draw(seed);
  Plan plan;
  plan.seed = seed;
  plan.nics = 1 + static_cast<unsigned>(draw.once_in(3));
  plan.streams = draw.one_of(std::array{0, 1, 1, 2, 3, 4});
  plan.tls = draw.once_in(6);
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
    last.at = draw.once_in(2) ? draw.duration(milliseconds(3)) : draw.duration(milliseconds(400));
    last.host = static_cast<unsigned>(draw.below(2));
    plan.faults.push_back(last);
  }
  return plan;
}

std::string describe(const Plan& plan) {
  std::string text = fmt::format(
      "seed {}: {} NIC(s), {} stream(s){}{}, chunk {}, replay {}, short calls 1 in {}, delay {} us, {} MB/s, "
      "windows {} and {}, {}\n",
      plan.seed, plan.nics, plan.streams, plan.tls ? ", TLS" : "", plan.checksums ? ", checksums" : "",
      plan.chunk, plan.replay, plan.short_one_in, plan.delay / microseconds(1), plan.bytes_per_second / 1e6,
      plan.window[0], plan.window[1], plan.wait_before_close ? "closes together" : "closes when it has done");
  for (const Message& message : plan.messages) {
    text += fmt::format("  host {} sends {} bytes", message.from, message.size);
    if (message.pause > Duration::zero())
      text += fmt::format(" after {} us", message.pause / microseconds(1));
    text += "\n";
  }
  static constexpr const char* kNames[] = {"reset of stream", "reset at one end of stream",
                                           "silence of NIC",  "host unreachable",
                                           "process stopped", "errno",
                                           "time jumps",      "process killed",
                                           "all paths cut"};
  static constexpr const char* kCallNames[] = {"socket", "accept", "send", "receive", "epoll_ctl", "connect"};
  for (const Fault& fault : plan.faults) {
    text += fmt::format("  at {} us: {}", fault.at / microseconds(1), kNames[static_cast<int>(fault.kind)]);
    if (fault.kind == Fault::Kind::kReset || fault.kind == Fault::Kind::kHalfReset)
      text += fmt::format(" {} of host {}", fault.stream, fault.host);
    else if (fault.kind == Fault::Kind::kSilence)
      text += fmt::format(" {}", fault.nic);
    else if (fault.kind == Fault::Kind::kErrno)
      text += fmt::format(" {} of {} {} time(s) on host {}", fault.error,
                          kCallNames[static_cast<int>(fault.call)], fault.times, fault.host);
    else if (fault.kind != Fault::Kind::kPause && fault.kind != Fault::Kind::kCutForGood)
      text += fmt::format(" on host {}", fault.host);
    if (fault.lasts > Duration::zero()) text += fmt::format(" for {} us", fault.lasts / microseconds(1));
    text += "\n";
  }
  return text;
}

}  // namespace tombolo::simulation
