#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "base/error.h"
#include "base/units.h"
#include "tools/process/ending_signals.h"
#include "tools/process/subprocess.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h has it only for _GNU_SOURCE

namespace tombolo::tools {
namespace {

constexpr std::size_t kLastLines = 10;
constexpr std::size_t kLongestLine = 64 * 1024;  // a rank that prints no line end must not fill our memory
constexpr int kTimeoutCode = 124;                // as timeout(1)
constexpr auto kDrainTime = std::chrono::milliseconds(300);

using Variables = std::map<std::string, std::string>;

std::string random_hex() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail_errno(errno, "getrandom");
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// One of a rank's two output pipes, cut into lines.
struct Stream {
  Descriptor pipe;
  int to = STDOUT_FILENO;
  std::string partial;
};

struct Rank {
  int number = 0;
  std::string host;
  pid_t pid = -1;
  Descriptor end;  // pidfd: readable when it has ended; not there on kernels before 5.3
  bool running = false;
  int status = 0;
  std::array<Stream, 2> streams;
  std::deque<std::string> last_lines;
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // a reader that went away is no reason to end the ranks
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options) { prepare(); }
  ~Launch() { kill_everything(); }
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
      if (limit && limit->passed() && !ending_) {
        result_.exit_code = kTimeoutCode;
        result_.message =
            fmt::format("the ranks did not end within {}", format_seconds(to_seconds(*options_.timeout)));
        end_all(SIGTERM);
      }
      if (kill_at_ && kill_at_->passed() && !killed_) kill_all();
    }
    drain_rest();
    return result_;
  }

 private:
  void prepare() {
    if (options_.ranks < 1) fail(Cause::kInvalidUsage, "{} ranks: at least one is needed", options_.ranks);
    if (options_.program.empty()) fail(Cause::kInvalidUsage, "no program was given to start");
    auto found = find_program(options_.program[0]);
    if (!found || ::access(found->c_str(), X_OK) != 0) {
      fail(Cause::kInvalidUsage, "program '{}' was not found, or may not be executed", options_.program[0]);
    }
    program_ = *found;
    for (char** each = environ; *each != nullptr; ++each) {
      std::string_view entry(*each);
      std::size_t equals = entry.find('=');
      if (equals != std::string_view::npos) {
        inherited_[std::string(entry.substr(0, equals))] = std::string(entry.substr(equals + 1));
      }
    }
    // Another launcher's words must not reach the ranks.
    for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
      inherited_.erase(name);
    }
    // Several ranks with a BLAS thread per core each would fight for the cores.
    if (options_.ranks > 1) inherited_.emplace("OMP_NUM_THREADS", "1");
    inherited_["WORLD_SIZE"] = std::to_string(options_.ranks);
    inherited_["TOMBOLO_SECRET"] = random_hex();
    place();
  }

  void place() {
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
  }

  static int local_port() {
    int port = emulation::find_free_port("127.0.0.1", std::random_device{}());
    if (port < 0) fail(Cause::kSystem, "no free TCP port on 127.0.0.1");
    return port;
  }

  std::vector<std::string> environment_of(const Rank& rank) const {
    Variables variables = inherited_;
    variables["RANK"] = std::to_string(rank.number);
    int local = 0;
    int on_host = 0;
    for (const Rank& other : ranks_) {
      if (other.host != rank.host) continue;
      ++on_host;
      if (other.number < rank.number) ++local;
    }
    variables["LOCAL_RANK"] = std::to_string(local);
    variables["LOCAL_WORLD_SIZE"] = std::to_string(on_host);
    if (options_.emulation != nullptr) {
      variables["TOMBOLO_HOST"] = rank.host;
      for (const auto& [name, value] : options_.emulation->environment(rank.host, on_host))
        variables[name] = value;
    }
    for (const auto& [name, value] : options_.environment) variables[name] = value;
    std::vector<std::string> lines;
    for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
    return lines;
  }

  std::size_t host_index(const std::string& name) const {
    const auto& hosts = options_.emulation->spec().hosts;
    auto at = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.name == name; });
    return static_cast<std::size_t>(at - hosts.begin());
  }

  void start_all() {
    for (Rank& rank : ranks_) start(rank);
  }

  void start(Rank& rank) {
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    Pipe refused = make_pipe();  // closed by exec; else carries the errno
    std::vector<std::string> variables = environment_of(rank);
    std::vector<char*> envp;
    for (std::string& each : variables) envp.push_back(each.data());
    envp.push_back(nullptr);
    std::vector<char*> argv{program_.data()};
    for (std::size_t i = 1; i < options_.program.size(); ++i) {
      argv.push_back(const_cast<char*>(options_.program[i].c_str()));
    }
    argv.push_back(nullptr);
    std::size_t host = options_.emulation != nullptr ? host_index(rank.host) : 0;

    pid_t parent = ::getpid();
    pid_t child = ::fork();
    if (child < 0) fail_errno(errno, fmt::format("fork for rank {}", rank.number));
    if (child == 0) {
      ::setpgid(0, 0);
      int error = options_.emulation != nullptr ? options_.emulation->enter(host) : 0;
      if (error == 0) {
        die_with_parent(parent, SIGKILL);
        int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::dup2(nothing, STDIN_FILENO);
        ::dup2(out.write.get(), STDOUT_FILENO);
        ::dup2(err.write.get(), STDERR_FILENO);
        ::sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
        pipe_signal_.restore();
        ::execve(program_.c_str(), argv.data(), envp.data());
        error = errno;
      }
      [[maybe_unused]] ssize_t put = ::write(refused.write.get(), &error, sizeof error);
      ::_exit(127);
    }
    ::setpgid(child, child);  // here too: whoever comes first, so that a signal to the group never misses
    rank.pid = child;
    rank.running = true;
    rank.end = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    out.write.reset();
    err.write.reset();
    refused.write.reset();
    rank.streams[0] = {std::move(out.read), STDOUT_FILENO, {}};
    rank.streams[1] = {std::move(err.read), STDERR_FILENO, {}};
    int error = 0;
    ssize_t got = 0;
    while ((got = ::read(refused.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (got == sizeof error) {
      fail_errno(error, fmt::format("starting '{}' as rank {}{}", program_, rank.number,
                                    rank.host.empty() ? "" : fmt::format(" on host '{}'", rank.host)));
    }
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }

  void wait_once(const std::optional<Deadline>& limit) {
    std::vector<pollfd> wait{{signals_.handle(), POLLIN, 0}};
    if (options_.emulation != nullptr && !ending_)
      wait.push_back({options_.emulation->holder_handle(), POLLIN, 0});
    std::size_t first_stream = wait.size();
    std::vector<std::pair<Rank*, Stream*>> of;
    for (Rank& rank : ranks_) {
      for (Stream& stream : rank.streams) {
        if (!stream.pipe) continue;
        wait.push_back({stream.pipe.get(), POLLIN, 0});
        of.emplace_back(&rank, &stream);
      }
    }
    bool all_seen = true;
    for (const Rank& rank : ranks_) {
      if (rank.running && rank.end) wait.push_back({rank.end.get(), POLLIN, 0});
      all_seen = all_seen && (!rank.running || rank.end);
    }
    // Without a pidfd a rank's end is found by looking.
    int milliseconds = all_seen ? 1000 : 20;
    if (limit) milliseconds = std::min(milliseconds, limit->poll_milliseconds() + 1);
    if (kill_at_) milliseconds = std::min(milliseconds, kill_at_->poll_milliseconds() + 1);
    if (::poll(wait.data(), wait.size(), milliseconds) <= 0) return;
    if (first_stream == 2 && wait[1].revents != 0) {
      fail_with(1, "the emulation's holder process has ended, and its network with it");
    }
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (wait[first_stream + i].revents != 0) read_stream(*of[i].first, *of[i].second);
    }
  }

  void read_stream(Rank& rank, Stream& stream) {
    std::array<char, 16384> buffer;
    ssize_t got = ::read(stream.pipe.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      if (!stream.partial.empty()) emit(rank, stream, stream.partial);
      stream.partial.clear();
      stream.pipe.reset();
      return;
    }
    std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      stream.partial.append(text.substr(0, end));
      emit(rank, stream, stream.partial);
      stream.partial.clear();
      text.remove_prefix(end + 1);
    }
    stream.partial.append(text);
    if (stream.partial.size() > kLongestLine) {
      emit(rank, stream, stream.partial);
      stream.partial.clear();
    }
  }

  void emit(Rank& rank, const Stream& stream, std::string_view line) {
    rank.last_lines.emplace_back(line);
    if (rank.last_lines.size() > kLastLines) rank.last_lines.pop_front();
    if (options_.on_line) options_.on_line(rank.number, line);
    if (options_.hide && options_.hide(rank.number, line)) return;
    if (options_.output == Output::kPrefixed)
      write_all(stream.to, fmt::format("[{}] {}\n", rank.number, line));
    if (options_.output == Output::kRankZero && rank.number == 0)
      write_all(stream.to, fmt::format("{}\n", line));
  }

  void reap() {
    for (Rank& rank : ranks_) {
      if (!rank.running || !ended(rank.pid)) continue;
      // Before its number may be given away: what it left behind in its group.
      ::kill(-rank.pid, SIGKILL);
      while (::waitpid(rank.pid, &rank.status, 0) < 0 && errno == EINTR) {
      }
      rank.running = false;
      int code = exit_code_of(rank.status);
      if (code != 0 && !ending_) rank_failed(rank, code);
    }
  }

  static bool ended(pid_t pid) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
  }

  void rank_failed(Rank& rank, int code) {
    // Its last words may still be in the pipes.
    for (Stream& stream : rank.streams) {
      Deadline soon = Deadline::after(kDrainTime);
      while (stream.pipe && !soon.passed()) {
        pollfd ready{stream.pipe.get(), POLLIN, 0};
        if (::poll(&ready, 1, soon.poll_milliseconds()) > 0) read_stream(rank, stream);
      }
    }
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
      if (interrupted_) {
        kill_all();
        continue;
      }
      interrupted_ = true;
      if (!ending_) {
        result_.exit_code = 128 + number;
        result_.message = fmt::format("ended by signal {} ({})", number, ::strsignal(number));
      }
      end_all(number);
    }
  }

  void end_all(int signal_number) {
    ending_ = true;
    if (!kill_at_) kill_at_ = Deadline::after(options_.grace);
    for (const Rank& rank : ranks_) {
      if (rank.running) ::kill(-rank.pid, signal_number);
    }
  }

  void kill_all() {
    killed_ = true;
    for (const Rank& rank : ranks_) {
      if (rank.running) ::kill(-rank.pid, SIGKILL);
    }
  }

  // What ranks wrote just before their end; a grandchild that keeps the pipe open does not keep us.
  void drain_rest() {
    Deadline soon = Deadline::after(kDrainTime);
    for (Rank& rank : ranks_) {
      for (Stream& stream : rank.streams) {
        while (stream.pipe) {
          pollfd ready{stream.pipe.get(), POLLIN, 0};
          if (::poll(&ready, 1, soon.poll_milliseconds()) <= 0) break;
          read_stream(rank, stream);
        }
        if (!stream.partial.empty()) emit(rank, stream, stream.partial);
        stream.partial.clear();
      }
    }
  }

  void kill_everything() noexcept {
    for (Rank& rank : ranks_) {
      if (!rank.running) continue;
      ::kill(-rank.pid, SIGKILL);
      while (::waitpid(rank.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      rank.running = false;
    }
    if (!cluster_path_.empty()) ::unlink(cluster_path_.c_str());
  }

  const LaunchOptions& options_;
  EndingSignals signals_;
  IgnoredPipeSignal pipe_signal_;
  std::string program_;
  Variables inherited_;
  std::vector<Rank> ranks_;
  std::string cluster_path_;
  LaunchResult result_;
  std::optional<Deadline> kill_at_;
  bool ending_ = false;
  bool interrupted_ = false;
  bool killed_ = false;
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
