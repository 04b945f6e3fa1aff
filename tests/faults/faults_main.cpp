// Breaks streams, paths and NICs again and again under a running transfer whose every byte is checked;
// docs/faults.md.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/randomized_test.h"
#include "base/units.h"
#include "tests/faults/arena.h"
#include "tests/faults/flow.h"

namespace {

using namespace tombolo;
using namespace tombolo::faults;
using std::chrono::milliseconds;

struct Plan {
  std::string arena = "loopback";
  std::string spec = "two-paths:rates=1gbit/250mbit,rtt=2ms";
  int nics = 2;
  int faults = 30;
  double seconds = 1;
  std::uint64_t seed = 0;
  std::vector<std::string> kinds;
  int streams = 0;
  double idle_timeout = 0;
  std::size_t connections = 2;
  std::string largest = "4M";
  bool keep_listener = false;
  std::optional<double> most_stall;
  double patience = 60;
  std::string terminal;
};

double seconds_since(TimePoint begin) {
  return to_seconds(Clock::steady().now() - begin);
}

/// The two processes of a transfer.
class Transfer {
 public:
  Transfer(const Plan& plan, Arena& arena) : arena_(arena) {
    std::array<Descriptor, 2> near;
    const transport::Secret secret = transport::Secret::random();
    for (std::size_t end = 0; end < 2; ++end) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail_errno(errno, "socketpair");
      near[end].reset(ends[0]);
      pids_[end] = ::fork();
      if (pids_[end] < 0) fail_errno(errno, "fork");
      if (pids_[end] == 0) serve(end, plan, secret, ends[1]);
      ::close(ends[1]);
    }
    std::vector<std::byte> encoded(65536);
    ssize_t got = ::recv(near[0].get(), encoded.data(), encoded.size(), 0);
    if (got <= 0) fail(Cause::kRemote, "end 0 gave no endpoint: {}", board_->ends[0].error);
    encoded.resize(static_cast<std::size_t>(got));
    encoded = arena.relay(transport::Endpoint::decode(encoded)).encode();
    if (::send(near[1].get(), encoded.data(), encoded.size(), MSG_NOSIGNAL) < 0)
      fail_errno(errno, "telling end 1 the endpoint");
    wait([&] { return all(EndState::kFlowing); }, 60, "the connections");
  }
  ~Transfer() {
    for (pid_t pid : pids_) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Board& board() const noexcept { return *board_; }
  pid_t pid(std::size_t end) const noexcept { return pids_[end]; }
  std::uint64_t messages(std::size_t end) const { return board_->ends[end].messages; }

  bool all(EndState state) const {
    return std::ranges::all_of(board_->ends, [&](const EndBoard& end) { return end.state == state; });
  }

  /// Throws with the error of an end that has failed.
  void check() const {
    for (std::size_t end = 0; end < 2; ++end) {
      if (board_->ends[end].state == EndState::kFailed)
        fail(Cause::kInternal, "end {} failed: {}", end, board_->ends[end].error);
    }
  }

  template <typename Condition>
  void wait(Condition condition, double patience, std::string_view what) const {
    Deadline deadline = Deadline::after(from_seconds(patience));
    while (!condition()) {
      check();
      if (deadline.passed()) fail(Cause::kTimeout, "waited {:.0f} s for {}", patience, what);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  /// Stops the sending, and waits until everything has arrived and both ends have closed.
  void finish(double patience) {
    board_->stop = true;
    wait([&] { return all(EndState::kFinished); }, patience, "the last messages");
    for (pid_t& pid : pids_) {
      int status = 0;
      Deadline deadline = Deadline::after(from_seconds(patience));
      while (::waitpid(pid, &status, WNOHANG) == 0) {
        if (deadline.passed()) fail(Cause::kTimeout, "process {} does not end", pid);
        std::this_thread::sleep_for(milliseconds(1));
      }
      pid = -1;
      if (status != 0) fail(Cause::kInternal, "a process of the transfer ended with status {:#x}", status);
    }
    check();
  }

  /// The transfer waits for this at its end.
  void kill(std::size_t end, int signal) const { ::kill(pids_[end], signal); }

 private:
  [[noreturn]] void serve(std::size_t end, const Plan& plan, const transport::Secret& secret, int channel) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (int error = arena_.enter(end); error != 0) {
      board_->ends[end].fail(Cause::kSystem, "entering the host: " + errno_text(error));
      ::_exit(1);
    }
    FlowOptions options;
    options.seed = plan.seed;
    options.connections = plan.connections;
    options.largest = parse_size(plan.largest, "--largest");
    options.keep_listener = plan.keep_listener;
    options.router.host = arena_.host(end);
    options.router.secret = secret;
    options.router.policy.transports = {"tcp"};
    options.router.tcp = transport::TcpOptions::from_environment();
    options.router.tls = transport::TlsOptions::from_environment();
    if (plan.streams > 0) options.router.tcp.streams = plan.streams;
    if (plan.idle_timeout > 0) options.router.tcp.idle_timeout = from_seconds(plan.idle_timeout);
    run_end(end, options, channel, *board_);
    ::_exit(board_->ends[end].state == EndState::kFinished ? 0 : 1);
  }

  Arena& arena_;
  SharedBoard board_;
  std::array<pid_t, 2> pids_{-1, -1};
};

/// Faults of the processes themselves, which every arena has.
void add_process_faults(std::vector<Fault>& faults, Transfer& transfer) {
  auto victim = std::make_shared<std::size_t>(0);
  faults.push_back({"stop", true, milliseconds(50), milliseconds(500),
                    [&transfer, victim](std::mt19937_64& random) {
                      *victim = random() % 2;
                      transfer.kill(*victim, SIGSTOP);
                      return 1;
                    },
                    [&transfer, victim] { transfer.kill(*victim, SIGCONT); }});
  faults.push_back({"slow-reader", true, milliseconds(50), milliseconds(500),
                    [&transfer, victim](std::mt19937_64& random) {
                      *victim = random() % 2;
                      transfer.board().ends[*victim].pause = true;
                      return 1;
                    },
                    [&transfer, victim] { transfer.board().ends[*victim].pause = false; }});
}

struct Toll {
  int times = 0, hits = 0;
  double longest_gap = 0,
         longest_stall = 0;  ///< the stall leaves out the time in which a fault stopped everything
  double longest_pass = 0;
};

class Runner {
 public:
  Runner(const Plan& plan, Arena& arena) : plan_(plan), random_(plan.seed), transfer_(plan, arena) {
    faults_ = arena.faults();
    add_process_faults(faults_, transfer_);
    if (plan.kinds.empty()) return;
    for (const std::string& kind : plan.kinds) {
      if (std::ranges::find(faults_, kind, &Fault::kind) == faults_.end())
        fail(Cause::kInvalidUsage, "--kinds: '{}' is none of {}", kind, names());
    }
    std::erase_if(faults_, [&](const Fault& fault) {
      return std::ranges::find(plan.kinds, fault.kind) == plan.kinds.end();
    });
  }

  bool run() {
    const TimePoint begin = Clock::steady().now();
    if (plan_.faults == 0) sleep(plan_.seconds);
    for (int i = 0; i < plan_.faults; ++i) {
      sleep(0.01 + 0.1 * std::uniform_real_distribution<>()(random_));
      make(faults_[random_() % faults_.size()], i);
    }
    transfer_.finish(plan_.patience * 2);
    return report(seconds_since(begin));
  }

 private:
  std::string names() const {
    std::string all;
    for (const Fault& fault : faults_) all += (all.empty() ? "" : ", ") + fault.kind;
    return all;
  }

  void sleep(double seconds) const {
    Deadline deadline = Deadline::after(from_seconds(seconds));
    while (!deadline.passed()) {
      transfer_.check();
      std::this_thread::sleep_for(std::min<Duration>(deadline.remaining(), milliseconds(5)));
    }
  }

  void make(const Fault& fault, int number) {
    auto& ends = transfer_.board().ends;
    for (EndBoard& end : ends) end.longest_gap = end.longest_pass = 0;
    const auto range = static_cast<double>((fault.longest - fault.shortest).count());
    const Duration lasts =
        fault.shortest +
        Duration(static_cast<std::int64_t>(range * std::uniform_real_distribution<>()(random_)));
    const TimePoint begin = Clock::steady().now();
    Toll& toll = tolls_[fault.kind];
    double lasted = 0;
    try {
      toll.hits += fault.begin(random_);
      sleep(to_seconds(lasts));
      if (fault.end) fault.end();
      lasted = seconds_since(begin);
      const std::array<std::uint64_t, 2> before{transfer_.messages(0), transfer_.messages(1)};
      transfer_.wait([&] { return transfer_.messages(0) > before[0] && transfer_.messages(1) > before[1]; },
                     plan_.patience, "messages to arrive again at both ends");
    } catch (const Error& error) {
      fail(error.cause(), "after fault {} ({}, {:.0f} ms): {}", number, fault.kind, to_seconds(lasts) * 1e3,
           error.what());
    }
    ++toll.times;
    double gap = 0;
    for (EndBoard& end : ends) {
      gap = std::max(gap, static_cast<double>(end.longest_gap) / 1e9);
      toll.longest_pass = std::max(toll.longest_pass, static_cast<double>(end.longest_pass) / 1e9);
    }
    toll.longest_gap = std::max(toll.longest_gap, gap);
    toll.longest_stall = std::max(toll.longest_stall, gap - (fault.stops_all ? lasted : 0));
  }

  bool report(double seconds) const {
    double stall = 0;
    std::printf("%-14s %6s %6s %18s %18s %18s\n", "fault", "times", "hits", "longest gap, ms",
                "beyond fault, ms", "longest pass, ms");
    for (const auto& [kind, toll] : tolls_) {
      std::printf("%-14s %6d %6d %18.0f %18.0f %18.0f\n", kind.c_str(), toll.times, toll.hits,
                  toll.longest_gap * 1e3, toll.longest_stall * 1e3, toll.longest_pass * 1e3);
      stall = std::max(stall, toll.longest_stall);
    }
    std::uint64_t messages = 0, bytes = 0, breaks = 0, rejoins = 0, replayed = 0;
    for (const EndBoard& end : transfer_.board().ends) {
      messages += end.messages;
      bytes += end.bytes;
      breaks += end.breaks;
      rejoins += end.rejoins;
      replayed += end.replayed;
    }
    std::printf(
        "%d faults in %.1f s; %llu messages with %.3f GB arrived, each once, in order, every byte right; "
        "streams "
        "broke %llu times, %llu rejoined, %llu chunks were sent again; longest stall beyond a fault %.0f "
        "ms\n",
        plan_.faults, seconds, static_cast<unsigned long long>(messages), static_cast<double>(bytes) / 1e9,
        static_cast<unsigned long long>(breaks), static_cast<unsigned long long>(rejoins),
        static_cast<unsigned long long>(replayed), stall * 1e3);
    if (!plan_.most_stall || stall <= *plan_.most_stall) return true;
    std::printf("FAILED: the longest stall is above %.1f s (--most-stall)\n", *plan_.most_stall);
    return false;
  }

  const Plan& plan_;
  std::mt19937_64 random_;
  Transfer transfer_;
  std::vector<Fault> faults_;
  std::map<std::string, Toll> tolls_;
};

/// Tests that a connection which cannot go on fails in time, with an error that names the lost peer.
void expect_failure(const Transfer& transfer, std::size_t end, const Arena& arena, double limit,
                    TimePoint since) {
  const EndBoard& board = transfer.board().ends[end];
  Deadline deadline = Deadline::after(from_seconds(limit));
  while (board.state != EndState::kFailed) {
    if (deadline.passed()) fail(Cause::kTimeout, "end {} has not failed within {:.1f} s", end, limit);
    std::this_thread::sleep_for(milliseconds(2));
  }
  const std::string text = board.error;
  std::printf("end %zu failed after %.2f s, cause %s:\n  %s\n", end, seconds_since(since),
              std::string(cause_name(static_cast<Cause>(board.cause.load()))).c_str(), text.c_str());
  for (const std::string& name : arena.names(end)) {
    if (text.find(name) == std::string::npos)
      fail(Cause::kInternal, "the message of end {} does not name '{}': {}", end, name, text);
  }
  const auto cause = static_cast<Cause>(board.cause.load());
  if (cause != Cause::kTimeout && cause != Cause::kRemote && cause != Cause::kSystem)
    fail(Cause::kInternal, "the cause of end {} is {}", end, cause_name(cause));
}

void run_terminal(const Plan& plan, Arena& arena) {
  Transfer transfer(plan, arena);
  std::this_thread::sleep_for(milliseconds(300));
  transfer.check();
  const TimePoint begin = Clock::steady().now();
  if (plan.terminal == "cut") {
    arena.cut_all();
    for (std::size_t end : {0U, 1U}) expect_failure(transfer, end, arena, plan.patience, begin);
  } else if (plan.terminal == "kill") {
    const std::size_t victim = plan.seed % 2;
    transfer.kill(victim, SIGKILL);
    expect_failure(transfer, 1 - victim, arena, plan.patience, begin);
  } else {
    const std::size_t victim = plan.seed % 2;
    transfer.kill(victim, SIGSTOP);
    expect_failure(transfer, 1 - victim, arena, plan.patience, begin);
    transfer.kill(victim, SIGCONT);
    expect_failure(transfer, victim, arena, plan.patience, begin);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  plan.seed = test_seed_from_environment().value_or(std::random_device{}());
  CLI::App app(
      "Breaks streams, NICs, paths and processes at random while messages of random sizes flow both ways, "
      "and "
      "checks that every message arrives once, in order, with the right bytes, and how long the transfer "
      "stalled. Everything random follows from --seed.");
  app.add_option("--arena", plan.arena,
                 "loopback: streams through a proxy that breaks them; paths: an emulation with relays")
      ->check(CLI::IsMember({"loopback", "paths"}));
  app.add_option("--spec", plan.spec, "for paths: an emulation of two hosts");
  app.add_option("--nics", plan.nics, "for loopback: addresses of each end")->check(CLI::Range(1, 8));
  app.add_option("--faults", plan.faults, "how many (0: none, for --seconds)")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--seconds", plan.seconds, "without faults: how long")->check(CLI::Range(0.0, 86400.0));
  app.add_option("--seed", plan.seed, "default: TOMBOLO_TEST_SEED, or else another each time; printed");
  app.add_option("--kinds", plan.kinds, "only these faults (a wrong one lists them all)")->delimiter(',');
  app.add_option("--streams", plan.streams, "TCP streams per connection (default: TOMBOLO_TCP_STREAMS)")
      ->check(CLI::Range(1, 64));
  app.add_option("--idle-timeout", plan.idle_timeout, "seconds (default: TOMBOLO_TCP_IDLE_TIMEOUT)")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_option("--connections", plan.connections, "at the same time")
      ->check(CLI::Range(std::size_t{1}, kMostConnections));
  app.add_option("--largest", plan.largest, "bytes of the largest message");
  app.add_flag("--keep-listener", plan.keep_listener, "do not destroy the listener once all are connected");
  app.add_option(
         "--most-stall", plan.most_stall,
         "fail when no message is completed for more seconds than this, beside the time in which a fault "
         "lets nothing pass")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--patience", plan.patience, "seconds for anything to happen at all")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_option(
         "--terminal", plan.terminal,
         "instead: one fault for good, after which both ends must fail, in time and naming peer and NICs: "
         "cut (all ways), kill or stop (one end's process)")
      ->check(CLI::IsMember({"cut", "kill", "stop"}));
  CLI11_PARSE(app, argc, argv);
  std::printf("seed %llu\n", static_cast<unsigned long long>(plan.seed));
  std::fflush(stdout);
  try {
    auto arena = plan.arena == "paths" ? paths_arena(plan.spec) : loopback_arena(plan.nics, plan.seed);
    std::printf("%s\n", arena->description().c_str());
    std::fflush(stdout);
    if (!plan.terminal.empty()) {
      run_terminal(plan, *arena);
      return 0;
    }
    return Runner(plan, *arena).run() ? 0 : 1;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    // Where namespaces are not permitted the test is skipped.
    return error.cause() == Cause::kUnsupported ? 77 : 1;
  }
}
