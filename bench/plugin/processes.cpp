#include "bench/plugin/processes.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace tombolo::bench::plugin {

/// What a process answers to an order.
struct Answer {
  bool good = false;
  double seconds = 0;    ///< seconds of the leading process for a round trip, or for a whole stream
  double processor = 0;  ///< processor seconds, user and system
  char text[480] = {};   ///< the candidate's name, or what went wrong
};

namespace {

/// Message buffers that keep their memory while the orders have the same size, so that no page fault falls
/// into a measurement.
class MessageBuffers {
 public:
  ~MessageBuffers() { drop(); }
  std::span<std::byte> get(std::size_t bytes) {
    if (bytes == bytes_) return {at_, bytes_};
    drop();
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail_errno(errno, "memory for the messages");
    at_ = static_cast<std::byte*>(mapped);
    bytes_ = bytes;
    std::fill_n(at_, bytes_, std::byte{1});
    return {at_, bytes_};
  }

 private:
  void drop() {
    if (at_ != nullptr) ::munmap(at_, bytes_);
    at_ = nullptr;
    bytes_ = 0;
  }
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

void fill(std::span<std::byte> data, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < data.size(); i += 8) {
    std::uint64_t word = random();
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, data.size() - i));
  }
}

/// Checks every byte of one message of that size, in both directions.
void verify(Channels& channels, bool leading, std::size_t size) {
  std::vector<std::byte> data(size), expected(size);
  for (std::uint64_t direction : {0, 1}) {
    fill(expected, 2 * size + direction);
    if (leading == (direction == 0)) {
      data = expected;
      channels.send(data);
    } else {
      std::ranges::fill(data, std::byte{0});
      channels.receive(data);
      if (data != expected) fail(Cause::kInternal, "a message of {} bytes arrived with other bytes", size);
    }
  }
}

/// The median of the round trips, in seconds; it leaves out those during which the process lost the
/// processor.
double ping_pong(Channels& channels, bool leading, std::span<std::byte> slot, std::size_t times) {
  std::vector<double> trips(times);
  for (std::size_t i = 0; i < times; ++i) {
    const TimePoint begin = Clock::steady().now();
    if (leading) {
      stamp(slot, 0, i);
      channels.send(slot);
      stamp(slot, 1, i);
    }
    channels.receive(slot);
    check_stamp(slot, 0, i);
    if (!leading) channels.send(slot);
    trips[i] = to_seconds(Clock::steady().now() - begin);
  }
  return median(std::move(trips));
}

/// Measures a stream in one direction; a token back tells the sender that everything has arrived.
void one_way(Channels& channels, bool leading, const Stream& stream) {
  std::byte token{};
  channels.stream(leading, stream);
  if (leading) {
    channels.receive({&token, 1});
  } else {
    channels.send({&token, 1});
  }
}

Answer carry_out(Channels& channels, bool leading, const Order& order, MessageBuffers& slots) {
  Answer answer;
  auto room = slots.get(std::max<std::size_t>(order.channels * kOutstanding * order.size, 8));
  const double before = used_processor_seconds();
  const TimePoint begin = Clock::steady().now();
  double trip = 0;
  if (order.task == Task::kVerify) {
    verify(channels, leading, order.size);
  } else if (order.task == Task::kTrips) {
    trip = ping_pong(channels, leading, room.first(order.size), order.count);
  } else {
    one_way(channels, leading, {order.channels, order.size, order.count, room, nullptr, spin_and_yield, {}});
  }
  answer.seconds = order.task == Task::kTrips ? trip : to_seconds(Clock::steady().now() - begin);
  answer.processor = used_processor_seconds() - before;
  answer.good = true;
  return answer;
}

[[noreturn]] void serve(const Candidate& candidate, bool leading, int orders, int control) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, candidate.key.c_str());  // for perf(1) and top(1)
  Answer answer;
  try {
    for (const auto& [name, value] : candidate.environment) ::setenv(name.c_str(), value.c_str(), 1);
    auto channels = candidate.make(leading, control);
    channels->name().copy(answer.text, sizeof answer.text - 1);
    answer.good = true;
    MessageBuffers slots;
    for (Order order; ::send(orders, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer &&
                      ::recv(orders, &order, sizeof order, 0) == sizeof order && order.task != Task::kEnd;) {
      answer = carry_out(*channels, leading, order, slots);
    }
    channels.reset();
    ::_exit(0);
  } catch (const std::exception& error) {
    answer.good = false;
    std::string(error.what()).copy(answer.text, sizeof answer.text - 1);
    ::send(orders, &answer, sizeof answer, MSG_NOSIGNAL);
  }
  ::_exit(1);
}

}  // namespace

Pair::Pair(Candidate candidate) : candidate_(std::move(candidate)) {
  int control[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) fail_errno(errno, "socketpair");
  for (std::size_t side = 0; side < 2; ++side) {
    int orders[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders) != 0) fail_errno(errno, "socketpair");
    pids_[side] = ::fork();
    if (pids_[side] < 0) fail_errno(errno, "fork");
    if (pids_[side] == 0) {
      ::close(orders[0]);
      ::close(control[1 - side]);
      serve(candidate_, side == 0, orders[1], control[side]);
    }
    ::close(orders[1]);
    orders_[side].reset(orders[0]);
  }
  ::close(control[0]);
  ::close(control[1]);
}

Pair::~Pair() {
  for (std::size_t side = 0; side < 2; ++side) {
    Order end;
    ::send(orders_[side].get(), &end, sizeof end, MSG_NOSIGNAL);
    if (failed_) ::kill(pids_[side], SIGKILL);
  }
  for (pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
}

void Pair::greet() {
  candidate_.label = answer_of(0).text;
  answer_of(1);
}

std::pair<double, double> Pair::order(const Order& order) {
  for (const Descriptor& each : orders_) {
    if (::send(each.get(), &order, sizeof order, MSG_NOSIGNAL) != sizeof order) failed_ = true;
  }
  Answer first = answer_of(0), second = answer_of(1);
  return {first.seconds, first.processor + second.processor};
}

Answer Pair::answer_of(std::size_t side) {
  Answer answer;
  // A side that fails ends, and the transport of the other side reports that.
  timeval patience{300, 0};
  ::setsockopt(orders_[side].get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ssize_t got = ::recv(orders_[side].get(), &answer, sizeof answer, 0);
  if (got == sizeof answer && answer.good) return answer;
  failed_ = true;
  fail(Cause::kSystem, "{}, {} process: {}", candidate_.key, side == 0 ? "first" : "second",
       got == sizeof answer ? answer.text : "ended, or silent for 300 s");
}

}  // namespace tombolo::bench::plugin
