#include "tools/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/error.h"

namespace tombolo::tools {
namespace {

constexpr int kExecFailed = 127;  // the exit code that shells use

// Reads once and appends what came; false at the end of the file.
bool drain(int fd, std::string& into) {
  std::array<char, 4096> buffer;
  ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

Descriptor as_file(std::string_view input) {
  Descriptor file(::memfd_create("input", MFD_CLOEXEC));
  if (!file) fail_errno(errno, "memfd_create");
  while (!input.empty()) {
    ssize_t put = ::write(file.get(), input.data(), input.size());
    if (put < 0) fail_errno(errno, "writing a program's input");
    input.remove_prefix(static_cast<std::size_t>(put));
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Reads what a child writes until it ends, or kills it at the deadline.
Finished collect(pid_t child, Pipe& out, Pipe& err, Duration deadline) {
  out.write.reset();
  err.write.reset();

  Finished finished;
  Deadline limit = Deadline::after(deadline);
  bool out_open = true;
  bool err_open = true;
  while ((out_open || err_open) && !limit.passed()) {
    std::array<pollfd, 2> wait{
        {{out_open ? out.read.get() : -1, POLLIN, 0}, {err_open ? err.read.get() : -1, POLLIN, 0}}};
    if (::poll(wait.data(), wait.size(), limit.poll_milliseconds()) < 0 && errno != EINTR) break;
    if (wait[0].revents != 0) out_open = drain(out.read.get(), finished.output);
    if (wait[1].revents != 0) err_open = drain(err.read.get(), finished.error);
  }
  bool late = out_open || err_open;
  if (late) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  finished.exit_code = late ? 124 : exit_code_of(status);
  return finished;
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "pipe2");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

bool is_executable(const std::string& path) noexcept {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return std::string(name);
  const char* path = std::getenv("PATH");
  std::string folders =
      std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin:/usr/local/sbin";
  std::string_view rest = folders;
  while (!rest.empty()) {
    std::size_t colon = std::min(rest.find(':'), rest.size());
    std::string candidate = std::string(rest.substr(0, colon)) + "/" + std::string(name);
    if (colon > 0 && is_executable(candidate)) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return std::nullopt;
}

void write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void die_with_parent(pid_t parent, int signal_number) noexcept {
  ::prctl(PR_SET_PDEATHSIG, signal_number);
  if (::getppid() != parent) ::_exit(1);
}

int exit_code_of(int status) noexcept {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Finished run_program(const std::vector<std::string>& arguments, std::string_view input, Duration deadline,
                     const std::function<int()>& in_child) {
  TOMBOLO_CHECK(!arguments.empty());
  Descriptor standard_input = as_file(input);
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  std::vector<char*> argv;
  for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);

  pid_t parent = ::getpid();
  pid_t child = ::fork();
  if (child < 0) fail_errno(errno, "fork");
  if (child == 0) {
    int refused = in_child ? in_child() : 0;
    if (refused != 0) ::_exit(kExecFailed);
    die_with_parent(parent, SIGKILL);
    ::dup2(standard_input.get(), STDIN_FILENO);
    ::dup2(out.write.get(), STDOUT_FILENO);
    ::dup2(err.write.get(), STDERR_FILENO);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(kExecFailed);
  }
  return collect(child, out, err, deadline);
}

Finished run_forked(const std::function<std::string()>& function, Duration deadline) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  std::fflush(nullptr);  // else the child would print again what is buffered here
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail_errno(errno, "fork");
  if (child == 0) {
    die_with_parent(parent, SIGKILL);
    ::dup2(err.write.get(), STDOUT_FILENO);
    ::dup2(err.write.get(), STDERR_FILENO);
    int code = 0;
    try {
      write_all(out.write.get(), function());
    } catch (const std::exception& error) {
      std::fflush(nullptr);
      write_all(STDERR_FILENO, error.what());
      code = 1;
    }
    std::fflush(nullptr);
    ::_exit(code);  // the parent's objects are not the child's to destroy
  }
  return collect(child, out, err, deadline);
}

}  // namespace tombolo::tools
