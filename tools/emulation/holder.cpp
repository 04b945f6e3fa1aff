#include "tools/emulation/holder.h"

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "tools/emulation/network_script.h"
#include "tools/emulation/relay.h"

namespace tombolo::emulation {
namespace {

constexpr auto kToolDeadline = std::chrono::seconds(20);
// The numbers of the descriptors that the holder keeps; all others are closed.
constexpr int kControl = 3;
constexpr int kStatus = 4;
constexpr int kSignals = 5;
constexpr int kHub = 6;
constexpr int kHigh = 200;  // descriptors lie from here on while they are renumbered

bool write_file(const char* path, const std::string& text) {
  Descriptor file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Leaves the network namespace. Real root makes no user namespace, because inside one it could no longer
// write other users' files, which ranks may have to write. Every other user becomes root of a new user
// namespace. Returns true where one was made.
bool leave_network_namespace() {
  if (::geteuid() == 0 && ::unshare(CLONE_NEWNET) == 0) return false;
  std::string uid_map = fmt::format("0 {} 1", ::geteuid());
  std::string gid_map = fmt::format("0 {} 1", ::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    int error = errno;
    fail(Cause::kUnsupported, "namespaces are not permitted here: unshare(user, network): {}{}",
         errno_text(error),
         error == EPERM || error == ENOSPC
             ? " (see user.max_user_namespaces, and the container's security profile)"
             : "");
  }
  ::prctl(PR_SET_DUMPABLE, 1);  // the change of credentials has cleared it; without it root owns /proc/self
  write_file("/proc/self/setgroups", "deny");
  if (!write_file("/proc/self/uid_map", uid_map) || !write_file("/proc/self/gid_map", gid_map)) {
    fail(Cause::kUnsupported, "namespaces are not permitted here: writing the user namespace's maps: {}",
         errno_text(errno));
  }
  return true;
}

// Moves a descriptor to `number`, which is free, by way of a number above kHigh.
void move_to(int number, int descriptor) {
  Descriptor high(::fcntl(descriptor, F_DUPFD_CLOEXEC, kHigh));
  if (!high || ::dup3(high.get(), number, O_CLOEXEC) < 0) fail_errno(errno, "placing a descriptor");
}

void keep_namespace_open(int as) {
  int file = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_errno(errno, "opening /proc/self/ns/net");
  move_to(as, file);
  if (file != as) ::close(file);
}

void run_batch(const std::string& tool, const std::string& lines, int in_namespace) {
  if (lines.empty()) return;
  auto enter = [in_namespace] { return ::setns(in_namespace, CLONE_NEWNET) == 0 ? 0 : errno; };
  auto finished = tools::run_program({tool, "-batch", "-"}, lines, kToolDeadline, enter);
  if (finished.exit_code == 0) return;
  while (finished.error.ends_with('\n')) finished.error.pop_back();
  fail(Cause::kUnsupported, "{} could not build the emulated network (exit code {}): {}", tool,
       finished.exit_code, finished.error);
}

std::string require_tool(std::string_view name) {
  auto found = tools::find_program(name);
  if (!found) fail(Cause::kUnsupported, "'{}' was not found; install the package iproute2", name);
  return *found;
}

bool carries(int socket, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return ::ioctl(socket, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
}

// The kernel says a moment after "up", on a busy machine a second, that an interface carries. A rank that
// looks before that takes its NIC for unplugged.
void await_carriers(const HostSpec& host, int in_namespace) {
  if (::setns(in_namespace, CLONE_NEWNET) != 0)
    fail_errno(errno, fmt::format("entering the namespace of host '{}'", host.name));
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) fail_errno(errno, "socket");
  const Deadline deadline = Deadline::after(kToolDeadline);
  for (const NicSpec& nic : host.nics) {
    while (!carries(socket.get(), nic.name)) {
      if (deadline.passed())
        fail(Cause::kTimeout, "interface {} of host '{}' is up and does not carry after {} s", nic.name,
             host.name, kToolDeadline.count());
      ::poll(nullptr, 0, 1);
    }
  }
}

struct Relay {
  pid_t pid = -1;
  Descriptor ended;  ///< pidfd: readable when the relay has ended
};

std::vector<std::size_t> relayed_links(const Spec& spec) {
  std::vector<std::size_t> links;
  for (std::size_t l = 0; l < spec.links.size(); ++l) {
    if (spec.links[l].relayed()) links.push_back(l);
  }
  return links;
}

// The two TAP devices of each relayed link, in the order of the links. They are made in the hub.
using Taps = std::vector<std::array<Descriptor, 2>>;

Taps make_taps(const Spec& spec) {
  Taps taps;
  for (std::size_t link : relayed_links(spec)) {
    auto [first, second] = link_interfaces(link);
    taps.push_back({make_tap(first), make_tap(second)});
  }
  return taps;
}

bool build_network(const Spec& spec, Taps& taps) {
  std::string ip = require_tool("ip");
  std::string tc = require_tool("tc");
  bool user_namespace = leave_network_namespace();
  keep_namespace_open(kHub);
  std::vector<std::string> paths;
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    if (::unshare(CLONE_NEWNET) != 0) {
      fail(Cause::kUnsupported, "a network namespace for host '{}': {}", spec.hosts[h].name,
           errno_text(errno));
    }
    keep_namespace_open(namespace_descriptor(h));
    paths.push_back(fmt::format("/proc/{}/fd/{}", ::getpid(), namespace_descriptor(h)));
  }
  if (::setns(kHub, CLONE_NEWNET) != 0) fail_errno(errno, "going back to the bridges' namespace");

  taps = make_taps(spec);
  NetworkScript script = make_network_script(spec, paths);
  run_batch(ip, script.hub_ip, kHub);
  run_batch(tc, script.hub_tc, kHub);
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    run_batch(ip, script.host_ip[h], namespace_descriptor(h));
    run_batch(tc, script.host_tc[h], namespace_descriptor(h));
  }
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) await_carriers(spec.hosts[h], namespace_descriptor(h));
  if (::setns(kHub, CLONE_NEWNET) != 0) fail_errno(errno, "going back to the bridges' namespace");
  return user_namespace;
}

std::vector<Relay> start_relays(const Spec& spec, Taps taps) {
  std::vector<std::size_t> links = relayed_links(spec);
  std::vector<Relay> relays;
  const pid_t holder = ::getpid();
  for (std::size_t r = 0; r < links.size(); ++r) {
    const LinkSpec& link = spec.links[links[r]];
    pid_t child = ::fork();
    if (child < 0) fail_errno(errno, "fork");
    if (child == 0) {
      tools::die_with_parent(holder, SIGKILL);
      // Of the holder's descriptors the child keeps only the two devices and the one for its orders.
      Descriptor first(::fcntl(taps[r][0].get(), F_DUPFD_CLOEXEC, kHigh));
      Descriptor second(::fcntl(taps[r][1].get(), F_DUPFD_CLOEXEC, kHigh));
      Descriptor orders(::fcntl(relay_descriptor(r), F_DUPFD_CLOEXEC, kHigh));
      ::syscall(SYS_close_range, kControl, kHigh - 1, 0);
      run_relay(first, second, orders,
                {link.bits_per_second, link.round_trip / 2, link.loss, link.queue_bytes, 2 * r + 1},
                link.back());
      ::_exit(0);
    }
    relays.push_back({child, Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)))});
    if (!relays.back().ended) fail_errno(errno, "pidfd_open");
    ::close(relay_descriptor(r));  // otherwise the relay would not notice that its owner has ended
  }
  return relays;
}

void say(char kind, const std::string& text) {
  std::string message = kind + text;
  [[maybe_unused]] ssize_t put = ::write(kStatus, message.data(), message.size());
}

[[noreturn]] void hold(const Spec& spec, bool namespaces, const std::string& directory, pid_t parent,
                       int control, int status, const std::vector<int>& relay_orders) {
  // The holder gets a process group of its own: Ctrl-C in a terminal must reach only the launcher, which
  // still needs the network.
  ::setpgid(0, 0);
  // All are moved above kHigh first, because each may have a number that another one needs.
  std::vector<std::pair<int, int>> moves{{control, kControl}, {status, kStatus}};
  for (std::size_t r = 0; r < relay_orders.size(); ++r) {
    moves.emplace_back(relay_orders[r], relay_descriptor(r));
  }
  for (auto& [from, to] : moves) from = ::fcntl(from, F_DUPFD_CLOEXEC, kHigh);
  ::syscall(SYS_close_range, kControl, kHigh - 1, 0);
  for (auto& [from, to] : moves) ::dup3(from, to, O_CLOEXEC);
  ::syscall(SYS_close_range, kHigh, ~0U, 0);
  sigset_t stop;
  ::sigemptyset(&stop);
  for (int each : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&stop, each);
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
  ::dup3(::signalfd(-1, &stop, SFD_CLOEXEC), kSignals, O_CLOEXEC);
  tools::die_with_parent(parent, SIGTERM);

  bool built = false;
  std::vector<Relay> relays;
  try {
    Taps taps;
    bool user_namespace = namespaces && build_network(spec, taps);
    if (namespaces) relays = start_relays(spec, std::move(taps));
    tools::die_with_parent(parent, SIGTERM);
    say(user_namespace ? 'u' : 'r', "");
    built = true;
  } catch (const std::exception& error) {
    say('e', error.what());
  }
  if (built) {
    std::vector<pollfd> wait{{kControl, POLLIN, 0}, {kSignals, POLLIN, 0}};
    // When a relay ends, its link is gone and the network is no longer the one that was asked for, so the
    // holder ends too.
    for (const Relay& relay : relays) wait.push_back({relay.ended.get(), POLLIN, 0});
    while (::poll(wait.data(), wait.size(), -1) < 0 && errno == EINTR) {
    }
  }
  for (const Relay& relay : relays) ::kill(relay.pid, SIGKILL);
  for (const Relay& relay : relays) ::waitpid(relay.pid, nullptr, 0);
  std::error_code ignored;
  if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
  ::_exit(0);
}

std::string read_status(int fd) {
  std::string text;
  std::array<char, 1024> buffer;
  for (;;) {
    ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text[0] != 'e') return text;
  }
}

}  // namespace

Holder start_holder(const Spec& spec, bool namespaces, const std::string& directory) {
  tools::Pipe control = tools::make_pipe();
  tools::Pipe status = tools::make_pipe();
  std::vector<Descriptor> relays(spec.links.size());
  std::vector<Descriptor> relay_ends;
  for (std::size_t link : namespaces ? relayed_links(spec) : std::vector<std::size_t>{}) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail_errno(errno, "socketpair");
    relays[link].reset(ends[0]);
    relay_ends.emplace_back(ends[1]);
  }
  pid_t parent = ::getpid();
  pid_t child = ::fork();
  if (child < 0) fail_errno(errno, "fork");
  if (child == 0) {
    std::vector<int> relay_orders;
    for (const Descriptor& end : relay_ends) relay_orders.push_back(end.get());
    hold(spec, namespaces, directory, parent, control.read.get(), status.write.get(), relay_orders);
  }
  status.write.reset();
  Holder holder{child, false, std::move(control.write), std::move(status.read), std::move(relays)};
  // This wait is bounded: every tool that the holder runs has a deadline, and the pipe ends with the holder.
  std::string answer = read_status(holder.alive.get());
  if (answer.empty() || answer[0] == 'e') {
    stop_holder(holder);
    fail(Cause::kUnsupported, "{}",
         answer.empty() ? "the emulation's holder process died" : answer.substr(1));
  }
  holder.user_namespace = answer[0] == 'u';
  return holder;
}

void stop_holder(Holder& holder) noexcept {
  if (holder.pid <= 0) return;
  holder.control.reset();
  pollfd ended{holder.alive.get(), POLLIN, 0};
  Deadline deadline = Deadline::after(std::chrono::seconds(5));
  while (::poll(&ended, 1, deadline.poll_milliseconds()) < 0 && errno == EINTR) {
  }
  if (ended.revents == 0) ::kill(holder.pid, SIGKILL);
  while (::waitpid(holder.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  holder.pid = -1;
}

}  // namespace tombolo::emulation
