#include "tests/simulation/connection_run.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "tests/simulation/world.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/routing/router.h"

namespace tombolo::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace transport;

// Ends that cannot go on have as long as the protocol promises: ten idle timeouts where the peer's host
// lives.
constexpr Duration kLimit = 14 * kIdleTimeout;

/// Bytes that look random; message i of a direction begins somewhere else than the others.
class Pattern {
 public:
  static constexpr std::size_t kLongest = 512 * 1024;
  Pattern() {
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i + 8 <= bytes_.size(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(bytes_.data() + i, &word, 8);
    }
  }
  std::span<const std::byte> of(unsigned from, std::size_t index, std::size_t size) const {
    return std::span(bytes_).subspan((index * 7919 + from * 104729) % (bytes_.size() - kLongest), size);
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(2 * kLongest);
};

const Pattern& pattern() {
  static const Pattern one;
  return one;
}

struct Posted {
  Request* request = nullptr;
  std::size_t index = 0;
  std::vector<std::byte> buffer;
  bool send = false;
};

/// A buffer whose request is over, to see that nothing is written to it any more.
struct Over {
  std::vector<std::byte> buffer;
};

class Run {
 public:
  Run(const Plan& plan, const RunOptions& options) : plan_(plan), options_(options), world_(plan) {
    for (unsigned host = 0; host < 2; ++host)
      for (const Message& message : plan.messages)
        if (message.from == host) ends_[host].to_send.push_back(message);
    ends_[0].to_receive = ends_[1].to_send.size();
    ends_[1].to_receive = ends_[0].to_send.size();
  }

  Verdict go() {
    const KernelInPlace kernel(world_.kernel());
    for (unsigned host = 0; host < 2; ++host) {
      world_.add(host, [this, host] { own(host); });
      world_.add(host, [this, host] { move_in_background(host); });
    }
    std::string wrong = world_.run(kLimit);
    if (!wrong.empty()) {
      for (unsigned host = 0; host < 2; ++host) wrong += "; " + doing(host);
      note(wrong);
      // What still lies on the actors' stacks is lost, so nothing below can be said.
      abandoned_ = true;
      return finish();
    }
    check_end();
    return finish();
  }

 private:
  struct End {
    std::vector<Message> to_send;
    std::size_t to_receive = 0;
    std::size_t posted_sends = 0, posted_receives = 0, done_sends = 0, done_receives = 0;
    std::vector<Posted> posted;
    std::deque<Over> over;
    std::shared_ptr<bootstrap::ProcessHelpers> helpers;
    std::unique_ptr<Router> router;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Connecting> connecting;
    std::unique_ptr<Connection> connection;
    std::string error;  // why it failed, or could not be made
    bool made = false, finished = false, closed = false;
    Endpoint endpoint;
    bool endpoint_known = false;
    TimePoint closing_since = TimePoint::max();
  };

  void note(const std::string& what) {
    if (verdict_.wrong.empty()) verdict_.wrong = what;
  }
  std::string doing(unsigned host) const {
    const End& end = ends_[host];
    return fmt::format("host {}: {} of {} sends and {} of {} receives done{}{}{}", host, end.done_sends,
                       end.to_send.size(), end.done_receives, end.to_receive,
                       end.made ? "" : ", not connected", end.closed ? ", closed" : "",
                       end.error.empty() ? "" : ", failed: " + end.error);
  }
  bool dead(unsigned host) { return world_.kernel().killed(host); }

  RouterOptions router_options(unsigned host) {
    RouterOptions made;
    made.host.name = fmt::format("h{}", host);
    for (unsigned nic = 0; nic < plan_.nics; ++nic) {
      topology::Nic one;
      one.name = fmt::format("eth{}", nic);
      one.addresses = {fmt::format("10.0.{}.{}", nic, host + 1)};
      one.rate_bits_per_second = 10'000'000'000;
      made.host.nics.push_back(one);
    }
    made.secret = Secret::from_bytes(kSecret);
    made.policy.transports = {"tcp"};
    made.tcp.streams = plan_.streams;
    made.tcp.chunk_bytes = plan_.chunk;
    made.tcp.replay_bytes = plan_.replay;
    made.tcp.checksums = plan_.checksums;
    made.tcp.idle_timeout = kIdleTimeout;
    if (plan_.tls) made.tls.use = TlsUse::kOn;
    made.meters = std::make_shared<Meters>();
    made.clock = &world_.clock();
    made.helpers = ends_[host].helpers;
    if (options_.log) {
      made.log = Log(LogLevel::kTrace, [this, host](LogLevel, std::string_view text) {
        fmt::print("{:10.6f} h{}: {}\n", to_seconds(world_.clock().now().time_since_epoch()) - 1000, host,
                   text);
      });
    }
    return made;
  }

  /// What the process of that host does.
  void own(unsigned host) {
    End& end = ends_[host];
    try {
      end.helpers =
          std::make_shared<bootstrap::ProcessHelpers>(bootstrap::ProcessHelpers::Simulated{}, world_.clock());
      end.router = std::make_unique<Router>(router_options(host));
      if (connect(host)) {
        end.made = true;
        while (work(host)) {
        }
        end.finished = true;
        // The peer's owner may still have to take what this one has sent.
        while (plan_.wait_before_close && end.error.empty() && !ends_[1 - host].finished && !dead(host)) {
          if (!end.connection->progress()) wait(*end.connection, milliseconds(50));
          if (end.connection->error() != nullptr) break;
          world_.yield();
        }
      }
    } catch (const Error& error) {
      if (end.error.empty()) end.error = error.what();
    }
    end.finished = true;
    close(host);
  }

  bool connect(unsigned host) {
    End& end = ends_[host];
    if (host == 1) {
      end.listener = end.router->listen();
      end.endpoint = Endpoint::decode(end.listener->endpoint().encode());
      end.endpoint_known = true;
      const auto deadline = Deadline::after(5 * kIdleTimeout, world_.clock());
      while (!(end.connection = end.listener->accept())) {
        if (deadline.passed() || dead(host) || !ends_[0].error.empty()) return false;
        wait(*end.listener, milliseconds(200));
      }
      return true;
    }
    while (!ends_[1].endpoint_known) {
      if (ends_[1].finished) return false;
      sleep(milliseconds(1));
    }
    ConnectOptions options;
    options.label = 42;
    options.deadline = 4 * kIdleTimeout;
    options.peer_name = "the other";
    end.connecting = end.router->connect(ends_[1].endpoint, options);
    while (!(end.connection = end.connecting->poll())) {
      if (dead(host)) return false;
      wait(*end.connecting, milliseconds(200));
    }
    end.connecting.reset();
    return true;
  }

  template <typename Waiting>
  void wait(const Waiting& on, Duration most) {
    std::vector<pollfd> handles;
    on.append_wait_handles(handles);
    world_.sleep(handles, world_.clock().now() + most);
  }
  void sleep(Duration how_long) { world_.sleep({}, world_.clock().now() + how_long); }

  void check_error(End& end) {
    if (const Error* error = end.connection->error(); error != nullptr && end.error.empty())
      end.error = error->what();
  }

  /// One turn of an owner: posts, tests, waits. False once it has nothing more to do.
  bool work(unsigned host) {
    End& end = ends_[host];
    Connection& connection = *end.connection;
    const auto [sends, receives] = posted_now(end);
    bool moved = post(host, sends, receives);
    // Requests are tested in any order.
    std::ranges::shuffle(end.posted, world_.random());
    for (std::size_t i = 0; i < end.posted.size();) {
      std::size_t bytes = 0;
      const Outcome outcome = connection.test(end.posted[i].request, bytes);
      if (outcome == Outcome::kPending) {
        ++i;
        if (world_.random()() % 4 == 0) break;
        continue;
      }
      moved = true;
      take(host, end.posted[i], outcome, bytes);
      end.posted.erase(end.posted.begin() + static_cast<std::ptrdiff_t>(i));
    }
    // A peer that closes afterwards is no failure of this end's.
    if (all_done(end) || dead(host)) return false;
    check_error(end);
    if (end.posted.empty() && !end.error.empty()) return false;
    if (!moved && end.error.empty() && !connection.progress())
      wait(connection, seconds(1));
    else
      world_.yield();
    return true;
  }

  static bool all_done(const End& end) {
    return end.done_sends == end.to_send.size() && end.done_receives == end.to_receive;
  }
  static std::pair<std::size_t, std::size_t> posted_now(const End& end) {
    const auto sends = static_cast<std::size_t>(std::ranges::count(end.posted, true, &Posted::send));
    return {sends, end.posted.size() - sends};
  }

  bool post(unsigned host, std::size_t sends, std::size_t receives) {
    End& end = ends_[host];
    if (!end.error.empty()) return false;
    bool moved = false;
    while (receives < plan_.window[host] && end.posted_receives < end.to_receive) {
      Posted one;
      one.index = end.posted_receives;
      // A receive may be larger than its message.
      one.buffer.assign(ends_[1 - host].to_send[one.index].size + world_.random()() % 2 * 100,
                        std::byte{0xee});
      one.request = end.connection->post_receive(one.buffer);
      if (one.request == nullptr) break;
      end.posted.push_back(std::move(one));
      ++end.posted_receives;
      ++receives;
      moved = true;
    }
    while (sends < plan_.window[host] && end.posted_sends < end.to_send.size()) {
      const Message& message = end.to_send[end.posted_sends];
      if (message.pause > Duration::zero() && !paused_[host]) {
        paused_[host] = true;
        sleep(message.pause);
      }
      Posted one;
      one.send = true;
      one.index = end.posted_sends;
      const auto bytes = pattern().of(host, one.index, message.size);
      one.buffer.assign(bytes.begin(), bytes.end());
      one.request = end.connection->post_send(one.buffer);
      if (one.request == nullptr) break;
      paused_[host] = false;
      end.posted.push_back(std::move(one));
      ++end.posted_sends;
      ++sends;
      moved = true;
    }
    return moved;
  }

  void take(unsigned host, Posted& one, Outcome outcome, std::size_t bytes) {
    End& end = ends_[host];
    if (outcome == Outcome::kDone && one.send) {
      ++end.done_sends;
      if (bytes != one.buffer.size())
        note(fmt::format("host {}: send {} reports {} bytes", host, one.index, bytes));
    }
    if (outcome == Outcome::kDone && !one.send) {
      const std::size_t size = ends_[1 - host].to_send[one.index].size;
      const auto expected = pattern().of(1 - host, one.index, size);
      ++end.done_receives;
      if (bytes != size) {
        note(fmt::format("host {}: receive {} got {} bytes, expected {}", host, one.index, bytes, size));
      } else if (!std::equal(expected.begin(), expected.end(), one.buffer.begin())) {
        note(fmt::format("host {}: receive {} got other bytes than were sent", host, one.index));
      }
      if (!std::all_of(one.buffer.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, one.buffer.size())),
                       one.buffer.end(), [](std::byte b) { return b == std::byte{0xee}; }))
        note(fmt::format("host {}: receive {} wrote beyond its message", host, one.index));
    }
    // From now on the buffer is its owner's.
    std::ranges::fill(one.buffer, std::byte{0x5a});
    end.over.push_back({std::move(one.buffer)});
  }

  void close(unsigned host) {
    End& end = ends_[host];
    end.closing_since = world_.clock().now();
    if (end.connection) {
      if (!all_done(end)) check_error(end);
      const Statistics statistics = end.connection->statistics();
      verdict_.breaks += statistics.breaks;
      verdict_.rejoins += statistics.rejoins;
      verdict_.replayed += statistics.replayed;
    }
    end.connection.reset();
    end.connecting.reset();
    end.listener.reset();
    end.closed = true;
    // Requests that were under way are over with their connection.
    for (Posted& one : end.posted) {
      std::ranges::fill(one.buffer, std::byte{0x5a});
      end.over.push_back({std::move(one.buffer)});
    }
    end.posted.clear();
  }

  void move_in_background(unsigned host) {
    End& end = ends_[host];
    for (;;) {
      if (end.closed && ends_[1 - host].closed) break;
      if (end.helpers && !dead(host)) end.helpers->background_progress().round();
      sleep(milliseconds(1 + world_.random()() % 20));
    }
    end.router.reset();
    end.helpers.reset();
  }

  void check_end() {
    for (unsigned host = 0; host < 2; ++host) {
      const End& end = ends_[host];
      for (const Over& one : end.over)
        if (!std::ranges::all_of(one.buffer, [](std::byte b) { return b == std::byte{0x5a}; }))
          note(fmt::format("host {}: a buffer was written after its request was over", host));
    }
    const bool struck = world_.terminal_fault_struck();
    if (!struck && !errno_at_set_up() && !cut_while_closing()) {
      for (unsigned host = 0; host < 2; ++host) {
        if (!ends_[host].error.empty() || ends_[host].done_sends != ends_[host].to_send.size() ||
            ends_[host].done_receives != ends_[host].to_receive)
          note(fmt::format("what can be survived was not: {}; {}", doing(0), doing(1)));
      }
    }
    for (unsigned host = 0; host < 2; ++host) {
      const End &from = ends_[host], &to = ends_[1 - host];
      if (!cut_while_closing() && from.done_sends > to.done_receives && to.error.empty() &&
          from.error.empty() && !dead(1 - host) && !dead(host))
        note(fmt::format("sends were reported as done that nobody received: {}; {}", doing(0), doing(1)));
      if (from.made && to.made && !dead(host) && from.error.empty() && !to.error.empty() &&
          (from.done_sends != from.to_send.size() || from.done_receives != from.to_receive))
        note(fmt::format("one end stopped without an error: {}; {}", doing(0), doing(1)));
    }
    if (const std::size_t left = world_.kernel().open_descriptors(); left != 0)
      note(fmt::format("{} descriptors are left:{}", left, world_.kernel().describe_open()));
  }

  /// An end that has closed sends nothing again. Where a stream is cut after that, before its kernel has
  /// delivered everything, the other end misses messages, and fails.
  bool cut_while_closing() const {
    return std::ranges::any_of(ends_, [this](const End& end) {
      return end.made && world_.last_stream_fault() >= end.closing_since &&
             world_.last_stream_fault() != TimePoint{};
    });
  }

  /// Errors of system calls may make the set-up fail, which is then said.
  bool errno_at_set_up() const {
    const bool any =
        std::ranges::any_of(plan_.faults, [](const Fault& one) { return one.kind == Fault::Kind::kErrno; });
    return any && (!ends_[0].made || !ends_[1].made) && (!ends_[0].error.empty() || !ends_[1].error.empty());
  }

  Verdict finish() {
    for (const End& end : ends_) {
      verdict_.messages += end.done_receives;
      verdict_.failed |= !end.error.empty();
    }
    verdict_.turns = world_.turns();
    verdict_.seconds = to_seconds(world_.clock().now().time_since_epoch()) - 1000;
    verdict_.connected = ends_[0].made && ends_[1].made;
    if (abandoned_) {
      for (End& end : ends_) {
        // They belong to actors that will never go on.
        end.connection.release();
        end.connecting.release();
        end.listener.release();
        end.router.release();
        new std::shared_ptr<bootstrap::ProcessHelpers>(std::move(end.helpers));
      }
    }
    return verdict_;
  }

  static constexpr std::array<std::byte, Secret::kBytes> kSecret{};

  const Plan& plan_;
  RunOptions options_;
  World world_;
  End ends_[2];
  bool paused_[2] = {};
  bool abandoned_ = false;
  Verdict verdict_;
};

}  // namespace

Verdict run_connection(const Plan& plan, const RunOptions& options) {
  return Run(plan, options).go();
}

}  // namespace tombolo::simulation
