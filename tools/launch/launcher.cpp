#include "tools/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/units.h"
#include "tools/launch/rank_environment.h"
#include "tools/launch/rank_process.h"
#include "tools/process/ending_signals.h"
#include "tools/process/subprocess.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h has it only for _GNU_SOURCE

namespace tombolo::tools {
namespace {

constexpr std::size_t kLastLines = 10;
constexpr int kTimeoutCode = 124;  // as timeout(1)
constexpr auto kDrainTime = std::chrono::milliseconds(300);
constexpr std::array<int, 2> kOutputs{STDOUT_FILENO, STDERR_FILENO};  // of a rank's two streams

std::string random_hex() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail_errno(errno, "getrandom");
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// Starts the ranks, and waits until all have ended.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options) { prepare(); }
  ~Launch() {
    for (RankProcess& rank : ranks_) rank.kill_and_wait();
    if (!cluster_path_.empty()) ::unlink(cluster_path_.c_str());
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  LaunchResult run() {
    start_all();
    std::optional<Deadline> limit;
    if (options_.timeout) limit = Deadline::after(*options_.timeout);
    while (any_running()) {
      wait_once(limit);
      reap();
      on_signals();
      if (limit && limit->passed() && phase_ == Phase::kRunning) {
        result_.exit_code = kTimeoutCode;
        result_.message =
            fmt::format("the ranks did not end within {}", format_seconds(to_seconds(*options_.timeout)));
        end_all(SIGTERM);
      }
      if (phase_ == Phase::kEnding && kill_at_->passed()) kill_all();
    }
    // Reads what ranks wrote just before they ended. A grandchild that keeps a pipe open delays this by at
    // most kDrainTime.
    const Deadline soon = Deadline::after(kDrainTime);
    for (RankProcess& rank : ranks_) drain(rank, soon);
    return result_;
  }

 private:
  enum class Phase {
    kRunning,
    kEnding,  ///< the ranks were asked to end, and will be killed at kill_at_
    kKilled,
  };

  void prepare() {
    if (options_.ranks < 1) fail(Cause::kInvalidUsage, "{} ranks: at least one is needed", options_.ranks);
    if (options_.program.empty()) fail(Cause::kInvalidUsage, "no program was given to start");
    auto found = find_program(options_.program[0]);
    if (!found || !is_executable(*found)) {
      fail(Cause::kInvalidUsage, "program '{}' was not found, or may not be executed", options_.program[0]);
    }
    program_ = *found;
    inherited_ = inherited_variables(environ, options_.ranks);
    inherited_["TOMBOLO_SECRET"] = random_hex();
    assign_hosts();
  }

  /// Decides where each rank runs, and where the ranks find each other.
  void assign_hosts() {
    ranks_.resize(static_cast<std::size_t>(options_.ranks));
    for (int r = 0; r < options_.ranks; ++r) ranks_[static_cast<std::size_t>(r)].number = r;
    if (options_.emulation == nullptr) {
      if (!options_.rank_hosts.empty()) {
        fail(Cause::kInvalidUsage,
             "an order of ranks on hosts needs an emulation: all ranks are on this machine");
      }
      inherited_["MASTER_ADDR"] = "127.0.0.1";
      inherited_["MASTER_PORT"] = std::to_string(local_port());
      return;
    }
    const emulation::Emulation& emulation = *options_.emulation;
    auto hosts = options_.rank_hosts.empty() ? map_ranks("block", emulation.cluster().hosts, options_.ranks)
                                             : options_.rank_hosts;
    if (hosts.size() != ranks_.size()) {
      fail(Cause::kInvalidUsage, "{} hosts are given for {} ranks", hosts.size(), ranks_.size());
    }
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      emulation.spec().host(hosts[r]);  // throws for an unknown one
      ranks_[r].host = hosts[r];
    }
    std::string fabric = emulation.spec().common_fabric(hosts);
    inherited_["MASTER_ADDR"] = emulation.address(hosts[0], fabric);
    inherited_["MASTER_PORT"] = std::to_string(emulation.free_port(hosts[0], fabric));
    cluster_path_ = fmt::format("{}/cluster-{}.json", emulation.directory(), random_hex().substr(0, 8));
    (options_.cluster ? *options_.cluster : emulation.cluster()).save(cluster_path_);
    inherited_["TOMBOLO_CLUSTER"] = cluster_path_;
    // What ranks find out about these hosts goes with them.
    inherited_.try_emplace("TOMBOLO_DISCOVER", emulation.directory() + "/islands.json");
  }

  static int local_port() {
    int port = emulation::find_free_port("127.0.0.1", std::random_device{}());
    if (port < 0) fail(Cause::kSystem, "no free TCP port on 127.0.0.1");
    return port;
  }

  std::vector<std::string> environment_of(const RankProcess& rank) const {
    std::vector<std::string> hosts;
    for (const RankProcess& each : ranks_) hosts.push_back(each.host);
    Variables variables = rank_variables(rank.number, hosts);
    variables.insert(inherited_.begin(), inherited_.end());
    if (options_.emulation != nullptr) {
      const int on_host = std::stoi(variables["LOCAL_WORLD_SIZE"]);
      variables["TOMBOLO_HOST"] = rank.host;
      for (const auto& [name, value] : options_.emulation->environment(rank.host, on_host))
        variables[name] = value;
    }
    for (const auto& [name, value] : options_.environment) variables[name] = value;
    return environment_lines(variables);
  }

  std::size_t host_index(const std::string& name) const {
    const auto& hosts = options_.emulation->spec().hosts;
    auto at = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.name == name; });
    return static_cast<std::size_t>(at - hosts.begin());
  }

  void start_all() {
    for (RankProcess& rank : ranks_) {
      RankCommand command{
          .program = program_, .arguments = options_.program, .environment = environment_of(rank)};
      command.arguments[0] = program_;
      if (options_.emulation != nullptr) {
        command.enter = [this, host = host_index(rank.host)] { return options_.emulation->enter(host); };
      }
      command.restore_signals = [this] {
        ::sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
        pipe_signal_.restore();
      };
      rank.start(command);
    }
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running; });
  }

  /// Sleeps until something happens, and reads what ranks have written.
  void wait_once(const std::optional<Deadline>& limit) {
    std::vector<pollfd> wait{{signals_.handle(), POLLIN, 0}};
    const bool watches_holder = options_.emulation != nullptr && phase_ == Phase::kRunning;
    if (watches_holder) wait.push_back({options_.emulation->holder_handle(), POLLIN, 0});
    const std::size_t first_stream = wait.size();
    std::vector<std::pair<RankProcess*, std::size_t>> of;
    for (RankProcess& rank : ranks_) {
      for (std::size_t stream = 0; stream < rank.streams.size(); ++stream) {
        if (!rank.streams[stream].open()) continue;
        wait.push_back({rank.streams[stream].handle(), POLLIN, 0});
        of.emplace_back(&rank, stream);
      }
    }
    bool all_seen = true;
    for (const RankProcess& rank : ranks_) {
      if (rank.running && rank.ended) wait.push_back({rank.ended.get(), POLLIN, 0});
      all_seen = all_seen && (!rank.running || rank.ended);
    }
    // Without a pidfd the end of a rank is found by polling.
    int milliseconds = all_seen ? 1000 : 20;
    if (limit) milliseconds = std::min(milliseconds, limit->poll_milliseconds() + 1);
    if (kill_at_) milliseconds = std::min(milliseconds, kill_at_->poll_milliseconds() + 1);
    if (::poll(wait.data(), wait.size(), milliseconds) <= 0) return;
    if (watches_holder && wait[1].revents != 0) {
      fail_with(1, "the emulation's holder process has ended, and its network with it");
    }
    for (std::size_t i = 0; i < of.size(); ++i) {
      auto [rank, stream] = of[i];
      if (wait[first_stream + i].revents != 0) rank->streams[stream].read(line_handler(*rank, stream));
    }
  }

  LineStream::OnLine line_handler(RankProcess& rank, std::size_t stream) {
    return [this, &rank, stream](std::string_view line) { emit(rank, kOutputs[stream], line); };
  }

  void drain(RankProcess& rank, const Deadline& deadline) {
    for (std::size_t stream = 0; stream < rank.streams.size(); ++stream)
      rank.streams[stream].drain(deadline, line_handler(rank, stream));
  }

  void emit(RankProcess& rank, int output, std::string_view line) {
    rank.last_lines.emplace_back(line);
    if (rank.last_lines.size() > kLastLines) rank.last_lines.pop_front();
    if (options_.on_line) options_.on_line(rank.number, line);
    if (options_.hide && options_.hide(rank.number, line)) return;
    if (options_.output == Output::kPrefixed) write_all(output, fmt::format("[{}] {}\n", rank.number, line));
    if (options_.output == Output::kRankZero && rank.number == 0)
      write_all(output, fmt::format("{}\n", line));
  }

  void reap() {
    for (RankProcess& rank : ranks_) {
      if (!rank.running || !rank.has_ended()) continue;
      rank.kill_and_wait();
      const int code = exit_code_of(rank.status);
      if (code == 0 || phase_ != Phase::kRunning) continue;
      if (asked_ && WIFEXITED(rank.status))
        rank_ended_as_asked(rank, code);
      else
        rank_failed(rank, code);
    }
  }

  // The others have been asked too, and take the time that they need: one of them may be saving its work.
  void rank_ended_as_asked(const RankProcess& rank, int code) {
    if (result_.exit_code != 0) return;
    result_.exit_code = code;
    result_.failed_rank = rank.number;
    result_.message = fmt::format("rank {} ended with exit code {} after signal {} ({})", rank.number, code,
                                  SIGUSR1, ::strsignal(SIGUSR1));
  }

  void rank_failed(RankProcess& rank, int code) {
    // What the rank wrote last may still be in the pipes.
    drain(rank, Deadline::after(kDrainTime));
    result_.failed_rank = rank.number;
    result_.last_lines.assign(rank.last_lines.begin(), rank.last_lines.end());
    std::string how = WIFSIGNALED(rank.status)
                          ? fmt::format("was killed by signal {} ({})", WTERMSIG(rank.status),
                                        ::strsignal(WTERMSIG(rank.status)))
                          : fmt::format("ended with exit code {}", code);
    std::string message = fmt::format("rank {}{} {}", rank.number,
                                      rank.host.empty() ? "" : fmt::format(" on host {}", rank.host), how);
    if (!result_.last_lines.empty()) message += "; its last lines:";
    for (const std::string& line : result_.last_lines) message += "\n    " + line;
    fail_with(code, message);
  }

  void fail_with(int code, const std::string& message) {
    result_.exit_code = code;
    result_.message = message;
    end_all(SIGTERM);
  }

  void on_signals() {
    for (int number = signals_.next(); number != 0; number = signals_.next()) {
      if (number == SIGUSR1) {
        asked_ = true;
        for (const RankProcess& rank : ranks_) rank.signal(number);
        continue;
      }
      const TimePoint now = Clock::steady().now();
      if (interrupted_at_) {
        if (now - *interrupted_at_ >= kRepeatedSignal) kill_all();
        continue;
      }
      interrupted_at_ = now;
      if (phase_ == Phase::kRunning) {
        result_.exit_code = 128 + number;
        result_.message = fmt::format("ended by signal {} ({})", number, ::strsignal(number));
      }
      end_all(number);
    }
  }

  void end_all(int signal_number) {
    if (phase_ == Phase::kRunning) {
      phase_ = Phase::kEnding;
      kill_at_ = Deadline::after(options_.grace);
    }
    for (const RankProcess& rank : ranks_) rank.signal(signal_number);
  }

  void kill_all() {
    phase_ = Phase::kKilled;
    for (const RankProcess& rank : ranks_) rank.signal(SIGKILL);
  }

  const LaunchOptions& options_;
  EndingSignals signals_;
  IgnoredPipeSignal pipe_signal_;
  std::string program_;
  Variables inherited_;
  std::vector<RankProcess> ranks_;
  std::string cluster_path_;
  LaunchResult result_;
  Phase phase_ = Phase::kRunning;
  std::optional<Deadline> kill_at_;
  std::optional<TimePoint> interrupted_at_;  ///< the first signal that ends the run came to this process
  bool asked_ = false;                       ///< SIGUSR1 has come: the ranks may end in their own time
};

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  return Launch(options).run();
}

std::string own_program() {
  std::array<char, 4096> path{};
  ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) fail_errno(errno, "reading /proc/self/exe");
  return {path.data(), static_cast<std::size_t>(length)};
}

}  // namespace tombolo::tools
