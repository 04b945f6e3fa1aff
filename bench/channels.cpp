#include "bench/channels.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"

namespace tombolo::bench {
namespace {

namespace abi = net_plugin::abi;

constexpr Duration kConnectDeadline = std::chrono::seconds(60);

/// A logger for plugins that prints warnings on standard error and drops the rest.
void log_warnings(abi::ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  if (level != abi::NCCL_LOG_WARN) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}

void check(abi::ncclResult_t result, const char* operation) {
  if (result != abi::ncclSuccess)
    fail(Cause::kSystem, "{} failed with NCCL result {}", operation, static_cast<int>(result));
}

std::uint64_t mark_of(std::size_t channel, std::size_t index) {
  return (index * kOutstanding + channel + 1) * 0x9e3779b97f4a7c15ULL;
}

/// Bytes that a call which does not wait has moved; 0 where it would have waited.
std::size_t moved(ssize_t result, const char* what) {
  if (result > 0) return static_cast<std::size_t>(result);
  if (result == 0) fail(Cause::kRemote, "{}: the other process is gone", what);
  if (errno != EAGAIN && errno != EINTR) fail_errno(errno, what);
  return 0;
}

}  // namespace

void stamp(std::span<std::byte> message, std::size_t channel, std::size_t index) {
  const std::uint64_t mark = mark_of(channel, index);
  const std::size_t bytes = std::min(message.size(), sizeof mark);
  std::memcpy(message.data(), &mark, bytes);
  std::memcpy(message.data() + message.size() - bytes, &mark, bytes);
}

void check_stamp(std::span<const std::byte> message, std::size_t channel, std::size_t index) {
  const std::uint64_t mark = mark_of(channel, index);
  const std::size_t bytes = std::min(message.size(), sizeof mark);
  if (std::memcmp(message.data(), &mark, bytes) != 0 ||
      std::memcmp(message.data() + message.size() - bytes, &mark, bytes) != 0) {
    fail(Cause::kInternal, "message {} of channel {} ({} bytes) arrived with other bytes", index, channel,
         message.size());
  }
}

PlainChannels::~PlainChannels() {
  for (const auto* sockets : {&out_, &in_})
    for (int socket : *sockets) ::close(socket);
}

void PlainChannels::send(std::span<std::byte> data) {
  for (unsigned passes = 0; !data.empty();) {
    std::size_t sent =
        moved(::send(out_[0], data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL), "plain send");
    if (sent == 0) spin_and_yield(++passes);
    data = data.subspan(sent);
  }
}

void PlainChannels::receive(std::span<std::byte> buffer) {
  for (unsigned passes = 0; !buffer.empty();) {
    std::size_t got =
        moved(::recv(incoming()[0], buffer.data(), buffer.size(), MSG_DONTWAIT), "plain receive");
    if (got == 0) spin_and_yield(++passes);
    buffer = buffer.subspan(got);
  }
}

void PlainChannels::stream(bool sending, const Stream& stream) {
  const std::size_t call = in_.empty() ? 64 * kKiB : 1;  // from 64 KiB on larger calls gain nothing
  // The batch is a power of two, as kOutstanding is, so that it lies in one piece.
  const std::size_t batch = std::bit_floor(std::clamp<std::size_t>(call / stream.size, 1, kOutstanding));
  struct State {
    std::size_t index = 0;        ///< first message of the batch that moves now
    std::span<std::byte> left{};  ///< of the batch
  };
  std::vector<State> states(stream.channels);
  std::size_t open = stream.channels;
  unsigned fruitless = 0;
  for (unsigned pass = 1; open > 0; ++pass) {
    bool any = false;
    for (std::size_t channel = 0; channel < stream.channels; ++channel) {
      State& state = states[channel];
      if (state.index >= stream.count) continue;
      const std::size_t messages = std::min(batch, stream.count - state.index);
      if (state.left.empty()) {
        state.left = {stream.slot(channel, state.index).data(), messages * stream.size};
        for (std::size_t i = 0; sending && i < messages; ++i)
          stamp(stream.slot(channel, state.index + i), channel, state.index + i);
      }
      const int socket = sending ? out_[channel] : incoming()[channel];
      const std::size_t bytes =
          sending
              ? moved(::send(socket, state.left.data(), state.left.size(), MSG_DONTWAIT | MSG_NOSIGNAL),
                      "plain send")
              : moved(::recv(socket, state.left.data(), state.left.size(), MSG_DONTWAIT), "plain receive");
      any |= bytes > 0;
      state.left = state.left.subspan(bytes);
      if (!state.left.empty()) continue;
      for (std::size_t i = 0; !sending && i < messages; ++i)
        check_stamp(stream.slot(channel, state.index + i), channel, state.index + i);
      if (!sending && stream.received != nullptr) *stream.received += messages * stream.size;
      state.index += messages;
      if (state.index == stream.count) --open;
    }
    if (any) {
      fruitless = 0;
    } else {
      stream.idle(++fruitless);
    }
    if ((!any || pass % kPassesPerQuestion == 0) && stream.go_on && !stream.go_on()) return;
  }
}

PluginChannels::PluginChannels(std::unique_ptr<net_plugin::Client> client, std::size_t channels, int control)
    : client_(std::move(client)), comms_(channels) {
  check(client_->init(&context_, 1, log_warnings), "init");
  int devices = 0;
  check(client_->devices(&devices), "devices");
  if (devices < 1) fail(Cause::kUnsupported, "{} has no device", client_->name());
  for (Comm& comm : comms_) {
    std::array<std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> own{}, others{};
    void* listening = nullptr;
    check(client_->listen(context_, 0, own.data(), &listening), "listen");
    if (::send(control, own.data(), own.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(own.size()) ||
        ::recv(control, others.data(), others.size(), MSG_WAITALL) != static_cast<ssize_t>(others.size())) {
      fail(Cause::kRemote, "exchanging handles: the other process is gone");
    }
    for (Deadline deadline = Deadline::after(kConnectDeadline);
         comm.send == nullptr || comm.receive == nullptr; ::sched_yield()) {
      if (comm.send == nullptr) check(client_->connect(context_, 0, others.data(), &comm.send), "connect");
      if (comm.receive == nullptr) check(client_->accept(listening, &comm.receive), "accept");
      if (deadline.passed()) fail(Cause::kTimeout, "no connection after {} s", to_seconds(kConnectDeadline));
    }
    check(client_->close_listen(listening), "closeListen");
  }
}

PluginChannels::~PluginChannels() {
  for (Comm& comm : comms_) {
    if (comm.send != nullptr) client_->close_send(comm.send);
    if (comm.receive != nullptr) client_->close_receive(comm.receive);
  }
  client_->finalize(context_);
}

std::string PluginChannels::name() const {
  return fmt::format("{} v{}", client_->name(), client_->abi_version());
}

void* PluginChannels::post(bool sending, const Comm& comm, std::span<std::byte> data) {
  void* request = nullptr;
  check(sending ? client_->send(comm.send, data.data(), data.size(), nullptr, &request)
                : client_->receive(comm.receive, data.data(), data.size(), nullptr, &request),
        sending ? "isend" : "irecv");
  return request;  // null: try again
}

bool PluginChannels::done(void* request) {
  int is_done = 0;
  check(client_->test(request, &is_done, nullptr), "test");
  return is_done != 0;
}

void PluginChannels::send(std::span<std::byte> data) {
  void* request = nullptr;
  unsigned passes = 0;
  while ((request = post(true, comms_[0], data)) == nullptr) spin_and_yield(++passes);
  while (!done(request)) spin_and_yield(++passes);
}

void PluginChannels::receive(std::span<std::byte> buffer) {
  void* request = nullptr;
  unsigned passes = 0;
  while ((request = post(false, comms_[0], buffer)) == nullptr) spin_and_yield(++passes);
  while (!done(request)) spin_and_yield(++passes);
}

void PluginChannels::stream(bool sending, const Stream& stream) {
  struct State {
    std::size_t posted = 0, finished = 0;
    std::array<void*, kOutstanding> requests{};
  };
  std::vector<State> states(stream.channels);
  bool ending = false;
  std::size_t open = stream.channels;
  unsigned fruitless = 0;
  for (unsigned pass = 1; open > 0; ++pass) {
    bool any = false;
    open = 0;
    for (std::size_t channel = 0; channel < stream.channels; ++channel) {
      State& state = states[channel];
      while (!ending && state.posted < stream.count && state.posted < state.finished + kOutstanding) {
        auto slot = stream.slot(channel, state.posted);
        if (sending) stamp(slot, channel, state.posted);
        void* request = post(sending, comms_[channel], slot);
        if (request == nullptr) break;
        state.requests[state.posted++ % kOutstanding] = request;
        any = true;
      }
      if (state.finished < state.posted && done(state.requests[state.finished % kOutstanding])) {
        any = true;
        if (!sending) {
          check_stamp(stream.slot(channel, state.finished), channel, state.finished);
          if (stream.received != nullptr) *stream.received += stream.size;
        }
        ++state.finished;
      }
      if (state.finished < (ending ? state.posted : stream.count)) ++open;
    }
    if (any) {
      fruitless = 0;
    } else {
      stream.idle(++fruitless);
    }
    if (!ending && (!any || pass % kPassesPerQuestion == 0) && stream.go_on && !stream.go_on()) {
      if (!sending) return;
      ending = true;
    }
  }
}

std::unique_ptr<net_plugin::Client> load_plugin(const std::string& path, int abi) {
  if (abi != 0) return net_plugin::Client::load(path, abi);
  for (int version = net_plugin::kNewestAbi; version > net_plugin::kOldestAbi; --version) {
    try {
      return net_plugin::Client::load(path, version);
    } catch (const Error& error) {
      if (error.cause() != Cause::kUnsupported) throw;
    }
  }
  return net_plugin::Client::load(path, net_plugin::kOldestAbi);
}

}  // namespace tombolo::bench
