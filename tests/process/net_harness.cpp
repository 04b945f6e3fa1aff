#include "tests/process/net_harness.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string_view>

#include "base/error.h"
#include "net_plugin/limits.h"

namespace tombolo::net_plugin::test {
namespace {

std::mutex log_lock;
std::vector<std::string> log_lines;

}  // namespace

void require(bool condition, const char* text, const char* file, int line) {
  if (condition) return;
  std::string message = fmt::format("{}:{}: not so: {}", file, line, text);
  for (const std::string& logged : take_log()) message += "\n  the plugin logged: " + logged;
  throw std::runtime_error(message);
}

void require_equal(const std::set<std::string>& seen, const std::set<std::string>& wanted, const char* text,
                   const char* file, int line) {
  std::string differences;
  for (const std::string& one : seen)
    if (!wanted.contains(one)) differences += "\n  too much: " + one;
  for (const std::string& one : wanted)
    if (!seen.contains(one)) differences += "\n  missing: " + one;
  require(differences.empty(), (text + differences).c_str(), file, line);
}

Channel::~Channel() {
  ::close(descriptor_);
}

void Channel::send(const void* data, std::size_t size) {
  REQUIRE(::send(descriptor_, data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
}

void Channel::receive(void* data, std::size_t size) {
  Deadline deadline = Deadline::after(kPatience);
  for (auto* at = static_cast<char*>(data); size > 0;) {
    pollfd wait{descriptor_, POLLIN, 0};
    int ready = ::poll(&wait, 1, deadline.poll_milliseconds());
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) throw std::runtime_error("the other process did not answer in time");
    ssize_t got = ::recv(descriptor_, at, size, 0);
    if (got <= 0) throw std::runtime_error("the other process ended early");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

void Channel::signal() {
  char byte = 's';
  send(&byte, 1);
}

void Channel::wait() {
  char byte = 0;
  receive(&byte, 1);
  REQUIRE(byte == 's');
}

Peer::Peer(const Body& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno(errno, "socketpair");
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) fail_errno(errno, "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    if (const char* host = std::getenv("TOMBOLO_TEST_PEER_HOST")) ::setenv("TOMBOLO_HOST", host, 1);
    int status = 0;
    try {
      Channel channel(ends[1]);
      body(channel);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "peer process: %s\n", error.what());
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  ::close(ends[1]);
  channel_ = std::make_unique<Channel>(ends[0]);
}

Peer::~Peer() {
  if (pid_ > 0) kill();
}

void Peer::join() {
  Deadline deadline = Deadline::after(kPatience);
  int status = 0;
  for (;;) {
    pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) break;
    if (deadline.passed()) {
      kill();
      throw std::runtime_error("the peer process did not end in time");
    }
    ::poll(nullptr, 0, 1);
  }
  pid_ = -1;
  if (status != 0) throw std::runtime_error(fmt::format("the peer process failed (status {:#x})", status));
}

void Peer::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Side::Side(int abi_version) : plugin_(Client::load(plugin_path(), abi_version)) {
  REQUIRE(plugin_->init(&context_, 0x70, keep_log) == abi::ncclSuccess);
}

Side::~Side() {
  plugin_->finalize(context_);
}

void* Side::listen(HandleMemory& handle, int device) {
  void* comm = nullptr;
  REQUIRE(plugin_->listen(context_, device, handle.data(), &comm) == abi::ncclSuccess);
  REQUIRE(comm != nullptr);
  return comm;
}

void* Side::connect(HandleMemory& handle, int device) {
  Deadline deadline = Deadline::after(kPatience);
  for (void* comm = nullptr;;) {
    REQUIRE(plugin_->connect(context_, device, handle.data(), &comm) == abi::ncclSuccess);
    if (comm != nullptr) return comm;
    REQUIRE(!deadline.passed());
  }
}

void* Side::accept(void* listen_comm) {
  Deadline deadline = Deadline::after(kPatience);
  for (void* comm = nullptr;;) {
    REQUIRE(plugin_->accept(listen_comm, &comm) == abi::ncclSuccess);
    if (comm != nullptr) return comm;
    REQUIRE(!deadline.passed());
  }
}

void* Side::register_memory(void* comm, std::vector<std::byte>& buffer) {
  void* memory = nullptr;
  REQUIRE(plugin_->register_memory(comm, buffer.data(), buffer.size(), abi::NCCL_PTR_HOST, &memory) ==
          abi::ncclSuccess);
  return memory;
}

void* Side::send(void* comm, const std::vector<std::byte>& data, void* memory) {
  Deadline deadline = Deadline::after(kPatience);
  for (void* request = nullptr;;) {
    auto* bytes = const_cast<std::byte*>(data.data());
    REQUIRE(plugin_->send(comm, bytes, data.size(), memory, &request) == abi::ncclSuccess);
    if (request != nullptr) return request;
    REQUIRE(!deadline.passed());
  }
}

void* Side::receive(void* comm, std::vector<std::byte>& buffer, void* memory) {
  Deadline deadline = Deadline::after(kPatience);
  for (void* request = nullptr;;) {
    REQUIRE(plugin_->receive(comm, buffer.data(), buffer.size(), memory, &request) == abi::ncclSuccess);
    if (request != nullptr) return request;
    REQUIRE(!deadline.passed());
  }
}

void* Side::send_with(int tag, void* comm, const std::vector<std::byte>& data) {
  Deadline deadline = Deadline::after(kPatience);
  for (void* request = nullptr;;) {
    auto* bytes = const_cast<std::byte*>(data.data());
    REQUIRE(plugin_->isend(comm, bytes, data.size(), tag, nullptr, &request) == abi::ncclSuccess);
    if (request != nullptr) return request;
    REQUIRE(!deadline.passed());
  }
}

void* Side::receive_group(void* comm, std::span<std::vector<std::byte>> buffers, std::span<const int> tags) {
  std::vector<void*> data, memories(buffers.size());
  std::vector<std::size_t> sizes;
  std::vector<int> own_tags(tags.begin(), tags.end());
  for (auto& buffer : buffers) {
    data.push_back(buffer.data());
    sizes.push_back(buffer.size());
  }
  Deadline deadline = Deadline::after(kPatience);
  for (void* request = nullptr;;) {
    REQUIRE(plugin_->irecv(comm, static_cast<int>(buffers.size()), data.data(), sizes.data(), own_tags.data(),
                           memories.data(), &request) == abi::ncclSuccess);
    if (request != nullptr) return request;
    REQUIRE(!deadline.passed());
  }
}

bool Side::poll_group(void* request, std::span<std::size_t> sizes) {
  int done = -1;
  std::array<int, kMaxReceives + 1> real{};
  real.fill(-1);
  REQUIRE(plugin_->test(request, &done, real.data()) == abi::ncclSuccess);
  REQUIRE(done == 0 || done == 1);
  if (done == 0) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    REQUIRE(real[i] >= 0);
    sizes[i] = static_cast<std::size_t>(real[i]);
  }
  REQUIRE(real[sizes.size()] == -1);  // exactly as many as the group has
  return true;
}

std::vector<std::size_t> Side::finish_group(void* request, std::size_t count) {
  Deadline deadline = Deadline::after(kPatience);
  std::vector<std::size_t> sizes(count);
  while (!poll_group(request, sizes)) REQUIRE(!deadline.passed());
  return sizes;
}

bool Side::poll(void* request, std::size_t& size) {
  int done = -1, bytes = -1;
  REQUIRE(plugin_->test(request, &done, &bytes) == abi::ncclSuccess);
  REQUIRE(done == 0 || done == 1);
  if (done == 0) return false;
  REQUIRE(bytes >= 0);
  size = static_cast<std::size_t>(bytes);
  return true;
}

std::size_t Side::finish(void* request) {
  Deadline deadline = Deadline::after(kPatience);
  std::size_t size = 0;
  while (!poll(request, size)) REQUIRE(!deadline.passed());
  return size;
}

abi::ncclResult_t Side::finish_badly(void* request) {
  Deadline deadline = Deadline::after(kPatience);
  for (;;) {
    int done = 0, bytes = 0;
    abi::ncclResult_t result = plugin_->test(request, &done, &bytes);
    if (result != abi::ncclSuccess) return result;
    REQUIRE(done == 0);
    REQUIRE(!deadline.passed());
  }
}

void keep_log(abi::ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  static const char* const shown = std::getenv("TOMBOLO_TEST_SHOW");
  if (shown != nullptr && std::strstr(text, shown) != nullptr) std::fprintf(stderr, "%s\n", text);
  std::lock_guard guard(log_lock);
  log_lines.push_back(fmt::format("{} {}", static_cast<int>(level), text));
}

std::vector<std::string> take_log() {
  std::lock_guard guard(log_lock);
  return std::exchange(log_lines, {});
}

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  unsigned value = seed * 2654435761U + 12345U;
  for (std::byte& byte : bytes) {
    value = value * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(value >> 24);
  }
  return bytes;
}

void Pair::run(int abi_version, const Body& sender, const Body& receiver) {
  Peer peer([&](Channel& channel) {
    Side side(abi_version);
    HandleMemory handle;
    channel.receive(handle.data(), handle.size());
    void* comm = side.connect(handle);
    sender(side, comm, channel);
    REQUIRE(side.plugin().close_send(comm) == abi::ncclSuccess);
  });
  {
    Side side(abi_version);
    HandleMemory handle{};
    void* listen_comm = side.listen(handle);
    peer.channel().send(handle.data(), handle.size());
    void* comm = side.accept(listen_comm);
    REQUIRE(side.plugin().close_listen(listen_comm) == abi::ncclSuccess);
    receiver(side, comm, peer.channel());
    REQUIRE(side.plugin().close_receive(comm) == abi::ncclSuccess);
  }
  peer.join();
}

bool overlong_is_always_an_error() {
  const char* transports = std::getenv("TOMBOLO_TRANSPORTS");
  return transports != nullptr &&
         (std::string_view(transports) == "ucx" || std::string_view(transports) == "rdma");
}

std::size_t times_as_many() {
  const char* times = std::getenv("TOMBOLO_TEST_TIMES");
  return times == nullptr ? 1 : std::stoul(times);
}

const std::string& plugin_path() {
  static const std::string path = TOMBOLO_NET_PLUGIN_PATH;
  return path;
}

}  // namespace tombolo::net_plugin::test
