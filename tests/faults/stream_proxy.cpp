#include "tests/faults/stream_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <random>

#include "base/error.h"

namespace tombolo::faults {
namespace {

constexpr std::size_t kMostHeld = 1 << 20;  // bytes of one direction of one stream
constexpr std::size_t kRead = 128 << 10;
constexpr std::size_t kMostAddresses = 8;

struct Message {
  ProxyOrder order;
  bool aims = false;
  std::array<std::uint16_t, kMostAddresses> targets{};
};

sockaddr_in address_of(const ProxiedAddress& proxied, std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  ::inet_pton(AF_INET, proxied.address.c_str(), &at.sin_addr);
  return at;
}

// Listens on the given port, or on one that the kernel chooses, and notes that one.
Descriptor listen_at(ProxiedAddress& proxied) {
  Descriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int one = 1;
  ::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in at = address_of(proxied, proxied.port);
  socklen_t length = sizeof at;
  if (::bind(listening.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(listening.get(), 64) != 0 ||
      ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    fail_errno(errno, "the proxy's port on " + proxied.address);
  }
  proxied.port = ntohs(at.sin_port);
  return listening;
}

struct Held {
  TimePoint due;
  std::vector<std::byte> bytes;
  std::size_t done = 0;
};

struct ProxiedDirection {
  std::deque<Held> held;
  std::size_t bytes = 0;
  bool ended = false;     // the reading side saw the end
  bool passed = false;    // and the writing side was told
  bool discards = false;  // what comes is thrown away
};

struct ProxyStream {
  std::array<Descriptor, 2> ends;
  std::array<ProxiedDirection, 2> from;  // by the end that it was read from
  bool connecting = true;
  bool frozen = false;
  bool dead = false;
  Duration delay{};
};

void reset_ends(ProxyStream& stream) {
  linger hard{1, 0};
  for (Descriptor& end : stream.ends) ::setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  stream.dead = true;
}

class Proxy {
 public:
  Proxy(std::vector<ProxiedAddress> addresses, std::vector<Descriptor> listening, Descriptor orders,
        std::uint64_t seed)
      : addresses_(std::move(addresses)),
        listening_(std::move(listening)),
        orders_(std::move(orders)),
        random_(seed) {}

  void run() {
    while (step()) streams_.remove_if([](const ProxyStream& stream) { return stream.dead; });
  }

 private:
  bool step() {
    std::vector<pollfd> wait{{orders_.get(), POLLIN, 0}};
    for (const Descriptor& each : listening_)
      wait.push_back({accepting_stopped_ ? -1 : each.get(), POLLIN, 0});
    const TimePoint now = Clock::steady().now();
    int timeout = -1;
    for (ProxyStream& stream : streams_) {
      for (std::size_t end = 0; end < 2; ++end) {
        const ProxiedDirection& in = stream.from[end];
        const ProxiedDirection& out = stream.from[1 - end];
        int events = 0;
        if (!stream.frozen && !stream.connecting && !in.ended && in.bytes < kMostHeld) events |= POLLIN;
        if (stream.connecting && end == 1) events |= POLLOUT;
        if (!stream.frozen && !stream.connecting && !out.held.empty()) {
          if (out.held.front().due <= now) {
            events |= POLLOUT;
          } else {
            auto left = std::chrono::ceil<std::chrono::milliseconds>(out.held.front().due - now).count();
            timeout = std::min(timeout < 0 ? 1000 : timeout, static_cast<int>(left));
          }
        }
        // A frozen stream must not wake the loop when the other side hangs up.
        wait.push_back({events != 0 ? stream.ends[end].get() : -1, static_cast<short>(events), 0});
      }
    }
    if (::poll(wait.data(), wait.size(), timeout) < 0 && errno != EINTR) return false;
    std::size_t at = 1;
    for (std::size_t index = 0; index < listening_.size(); ++index) {
      if (wait[at++].revents != 0) accept_one(index);
    }
    auto stream = streams_.begin();
    for (; at + 1 < wait.size(); at += 2, ++stream) {
      if (stream->connecting && wait[at + 1].revents != 0) finish_connecting(*stream);
      if (stream->connecting || stream->frozen || stream->dead) continue;
      for (std::size_t end = 0; end < 2; ++end) {
        if (wait[at + end].revents != 0) read_from(*stream, end);
        write_to(*stream, end);
      }
    }
    return wait[0].revents == 0 || obey();
  }

  void accept_one(std::size_t index) {
    Descriptor near(::accept4(listening_[index].get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    Descriptor far(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!near || !far || addresses_[index].target == 0) return;
    sockaddr_in to = address_of(addresses_[index], addresses_[index].target);
    ::connect(far.get(), reinterpret_cast<sockaddr*>(&to), sizeof to);
    int one = 1;
    for (const Descriptor* end : {&near, &far})
      ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ProxyStream& stream = streams_.emplace_back();
    stream.ends = {std::move(near), std::move(far)};
    stream.delay = delay_new_;
    stream.frozen = freeze_new_;
  }

  void finish_connecting(ProxyStream& stream) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(stream.ends[1].get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return reset_ends(stream);
    stream.connecting = false;
  }

  void read_from(ProxyStream& stream, std::size_t end) {
    ProxiedDirection& in = stream.from[end];
    if (in.ended || in.bytes >= kMostHeld) return;
    std::vector<std::byte> bytes(kRead);
    ssize_t got = ::recv(stream.ends[end].get(), bytes.data(), bytes.size(), 0);
    if (got < 0) {
      if (errno != EAGAIN && errno != EINTR) reset_ends(stream);
      return;
    }
    if (got == 0) {
      in.ended = true;
      return;
    }
    if (in.discards) return;
    bytes.resize(static_cast<std::size_t>(got));
    in.bytes += bytes.size();
    in.held.push_back({Clock::steady().now() + stream.delay, std::move(bytes)});
  }

  void write_to(ProxyStream& stream, std::size_t end) {
    ProxiedDirection& out = stream.from[1 - end];
    const TimePoint now = Clock::steady().now();
    while (!stream.dead && !out.held.empty() && out.held.front().due <= now) {
      Held& front = out.held.front();
      ssize_t put = ::send(stream.ends[end].get(), front.bytes.data() + front.done,
                           front.bytes.size() - front.done, MSG_NOSIGNAL);
      if (put < 0) {
        if (errno != EAGAIN && errno != EINTR) reset_ends(stream);
        return;
      }
      front.done += static_cast<std::size_t>(put);
      out.bytes -= static_cast<std::size_t>(put);
      if (front.done == front.bytes.size()) out.held.pop_front();
    }
    if (out.ended && out.held.empty() && !out.passed) {
      out.passed = true;
      ::shutdown(stream.ends[end].get(), SHUT_WR);
    }
    if (stream.from[0].passed && stream.from[1].passed) stream.dead = true;
  }

  static void apply(ProxyStream& stream, const ProxyOrder& order, std::uint64_t random) {
    ProxiedDirection& in = stream.from[random & 1];
    switch (order.action) {
      case ProxyAction::kReset:
        return reset_ends(stream);
      case ProxyAction::kHalfClose:
        // The end that this direction leads to is told that nothing more comes.
        in.discards = in.passed = true;
        in.held.clear();
        in.bytes = 0;
        ::shutdown(stream.ends[1 - (random & 1)].get(), SHUT_WR);
        return;
      case ProxyAction::kFreeze:
        stream.frozen = true;
        return;
      case ProxyAction::kDelay:
        stream.delay = order.delay;
        return;
      case ProxyAction::kReport:
      case ProxyAction::kStopAccepting:
      case ProxyAction::kHeal:
        return;
    }
  }

  bool obey() {
    Message message;
    if (::recv(orders_.get(), &message, sizeof message, 0) != sizeof message) return false;
    const ProxyOrder& order = message.order;
    ProxyReport report;
    for (std::size_t i = 0; message.aims && i < addresses_.size(); ++i)
      addresses_[i].target = message.targets[i];
    if (order.action == ProxyAction::kStopAccepting) accepting_stopped_ = true;
    if (order.action == ProxyAction::kFreeze && order.all) freeze_new_ = true;
    if (order.action == ProxyAction::kDelay && order.all) delay_new_ = order.delay;
    if (order.action == ProxyAction::kHeal) {
      freeze_new_ = false;
      delay_new_ = {};
      accepting_stopped_ = false;
      for (ProxyStream& stream : streams_) {
        stream.frozen = false;
        stream.delay = {};
      }
    }
    std::vector<ProxyStream*> open;
    for (ProxyStream& stream : streams_) {
      if (!stream.connecting && !stream.dead) open.push_back(&stream);
    }
    report.streams = static_cast<std::uint32_t>(open.size());
    if (!order.all && !open.empty()) open = {open[random_() % open.size()]};
    if (order.action == ProxyAction::kReset || order.action == ProxyAction::kHalfClose ||
        order.action == ProxyAction::kFreeze || order.action == ProxyAction::kDelay) {
      for (ProxyStream* stream : open) apply(*stream, order, random_());
      report.affected = static_cast<std::uint32_t>(open.size());
    }
    return ::send(orders_.get(), &report, sizeof report, MSG_NOSIGNAL) == sizeof report;
  }

  std::vector<ProxiedAddress> addresses_;
  std::vector<Descriptor> listening_;
  Descriptor orders_;
  std::mt19937_64 random_;
  std::list<ProxyStream> streams_;
  bool freeze_new_ = false, accepting_stopped_ = false;
  Duration delay_new_{};
};

}  // namespace

StreamProxy::StreamProxy(const std::vector<std::string>& addresses, std::uint64_t seed) {
  TOMBOLO_CHECK(addresses.size() <= kMostAddresses, "{} addresses", addresses.size());
  std::vector<Descriptor> listening;
  for (const std::string& address : addresses) {
    addresses_.push_back({address});
    listening.push_back(listen_at(addresses_.back()));
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail_errno(errno, "socketpair");
  pid_ = ::fork();
  if (pid_ < 0) fail_errno(errno, "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    Proxy(addresses_, std::move(listening), Descriptor(ends[1]), seed).run();
    ::_exit(0);
  }
  ::close(ends[1]);
  orders_.reset(ends[0]);
}

StreamProxy::~StreamProxy() {
  orders_.reset();
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void StreamProxy::aim(const std::vector<std::uint16_t>& targets) {
  Message message;
  message.aims = true;
  std::copy_n(targets.begin(), std::min(targets.size(), kMostAddresses), message.targets.begin());
  ProxyReport report;
  if (::send(orders_.get(), &message, sizeof message, MSG_NOSIGNAL) != sizeof message ||
      ::recv(orders_.get(), &report, sizeof report, 0) != sizeof report) {
    fail(Cause::kSystem, "the proxy is gone");
  }
}

ProxyReport StreamProxy::order(const ProxyOrder& order) {
  Message message;
  message.order = order;
  ProxyReport report;
  if (::send(orders_.get(), &message, sizeof message, MSG_NOSIGNAL) != sizeof message ||
      ::recv(orders_.get(), &report, sizeof report, 0) != sizeof report) {
    fail(Cause::kSystem, "the proxy is gone");
  }
  return report;
}

}  // namespace tombolo::faults
