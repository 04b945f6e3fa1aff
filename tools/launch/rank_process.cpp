#include "tools/launch/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "tools/process/subprocess.h"

namespace tombolo::tools {
namespace {

// a rank that prints no line end must not exhaust this process's memory
constexpr std::size_t kLongestLine = 64 * 1024;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& each : texts) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void LineStream::read(const OnLine& on_line) {
  std::array<char, 16384> buffer;
  const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    flush(on_line);
    pipe_.reset();
    return;
  }
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    partial_.append(text.substr(0, end));
    on_line(partial_);
    partial_.clear();
    text.remove_prefix(end + 1);
  }
  partial_.append(text);
  if (partial_.size() > kLongestLine) flush(on_line);
}

void LineStream::drain(const Deadline& deadline, const OnLine& on_line) {
  // A pipe holds 64 KiB, so what it held at the deadline is read in four turns.
  for (int late = 0; open() && late < 4; late += deadline.passed() ? 1 : 0) {
    pollfd ready{pipe_.get(), POLLIN, 0};
    if (::poll(&ready, 1, deadline.poll_milliseconds()) <= 0) break;
    read(on_line);
  }
  flush(on_line);
}

void LineStream::flush(const OnLine& on_line) {
  if (!partial_.empty()) on_line(partial_);
  partial_.clear();
}

void RankProcess::start(const RankCommand& command) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe refused = make_pipe();  // exec closes it; where exec fails it carries the errno
  const std::vector<char*> argv = pointers_to(command.arguments);
  const std::vector<char*> envp = pointers_to(command.environment);

  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail_errno(errno, fmt::format("fork for rank {}", number));
  if (child == 0) {
    ::setpgid(0, 0);
    int error = command.enter ? command.enter() : 0;
    if (error == 0) {
      die_with_parent(parent, SIGKILL);
      const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      ::dup2(nothing, STDIN_FILENO);
      ::dup2(out.write.get(), STDOUT_FILENO);
      ::dup2(err.write.get(), STDERR_FILENO);
      command.restore_signals();
      ::execve(command.program.c_str(), argv.data(), envp.data());
      error = errno;
    }
    [[maybe_unused]] const ssize_t put = ::write(refused.write.get(), &error, sizeof error);
    ::_exit(127);
  }
  // Parent and child both make the group, so that it exists before either goes on.
  ::setpgid(child, child);
  pid = child;
  running = true;
  ended = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  out.write.reset();
  err.write.reset();
  refused.write.reset();
  streams = {LineStream(std::move(out.read)), LineStream(std::move(err.read))};
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(refused.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == sizeof error) {
    fail_errno(error, fmt::format("starting '{}' as rank {}{}", command.program, number,
                                  host.empty() ? "" : fmt::format(" on host '{}'", host)));
  }
}

void RankProcess::signal(int number_of_signal) const noexcept {
  if (running) ::kill(-pid, number_of_signal);
}

void RankProcess::kill_and_wait() noexcept {
  if (!running) return;
  // This comes before waiting, because that frees the number of the group for others.
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  running = false;
}

bool RankProcess::has_ended() const noexcept {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace tombolo::tools
