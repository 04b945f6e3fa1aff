#include "collectives/rendezvous/store_client.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "transport/kernel.h"

namespace tombolo::collectives {
namespace store {
namespace {

using asio::ip::tcp;

/// The pause between two attempts to reach a store that does not listen yet.
constexpr auto kRetryPause = std::chrono::milliseconds(20);
/// The time for one attempt, so that a lost SYN does not take the whole deadline.
constexpr auto kAttemptPatience = std::chrono::seconds(5);

/// Waits until the descriptor is ready for `events`; false when the deadline passed first.
bool wait_for(int descriptor, short events, Deadline deadline) {
  for (;;) {
    pollfd one{descriptor, events, 0};
    const int ready = transport::kernel().poll(&one, 1, deadline.poll_milliseconds());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) fail_errno(errno, "store: poll");
  }
}

/// Tries to connect once: a connected non-blocking socket, or none with the `error`.
transport::Descriptor attempt(const tcp::endpoint& endpoint, Deadline deadline, int& error) {
  transport::Kernel& kernel = transport::kernel();
  transport::Descriptor socket(
      kernel.socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) fail_errno(errno, "store: socket");
  const int on = 1;
  kernel.setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  error = 0;
  if (kernel.connect(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    if (wait_for(socket.get(), POLLOUT,
                 Deadline::after(std::min<Duration>(kAttemptPatience, deadline.remaining())))) {
      socklen_t size = sizeof(error);
      kernel.getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) socket.reset();
  return socket;
}

}  // namespace

std::unique_ptr<Channel> Channel::connect(const std::string& address, int port,
                                          const transport::Secret& secret, Deadline deadline,
                                          Store::IfNobodyListens otherwise) {
  const std::string name = fmt::format("the store at {}:{}", address, port);
  asio::io_context io;
  std::string why = "no attempt was made";
  for (;;) {
    asio::error_code error;
    const auto found = tcp::resolver(io).resolve(address, std::to_string(port), error);
    if (error) why = error.message();
    bool refused = !found.empty();  // by all addresses
    for (const auto& entry : found) {
      int problem = 0;
      transport::Descriptor socket = attempt(entry.endpoint(), deadline, problem);
      refused &= problem == ECONNREFUSED;
      if (!socket) {
        why = errno_text(problem);
        continue;
      }
      std::unique_ptr<Channel> channel(new Channel(std::move(socket), name));
      try {
        channel->handshake(secret, deadline);
        return channel;
      } catch (const Error& failed) {
        // A store that is just going down (or a full backlog) closes before its hello: worth another attempt.
        if (failed.cause() != Cause::kSystem) throw;
        why = failed.what();
      }
    }
    if (refused && otherwise == Store::IfNobodyListens::kFail)
      fail(Cause::kRemote, "{} is gone: {}", name, why);
    if (deadline.passed()) {
      fail(
          Cause::kTimeout,
          "cannot reach {} within {}: {}. Is rank 0 running there (MASTER_ADDR says where), and does nothing "
          "filter the port?",
          name, format_seconds(to_seconds(deadline.allowed())), why);
    }
    std::this_thread::sleep_for(
        std::min<Duration>(kRetryPause, deadline.remaining() + std::chrono::milliseconds(1)));
  }
}

void Channel::lost(std::string_view why) const {
  if (generation_ != transport::fork_generation()) {
    fail(Cause::kInvalidUsage,
         "{}: this process is a forked child of the one that connected. After fork(), make a communicator of "
         "the child's own",
         name_);
  }
  fail(Cause::kRemote, "{} is gone: {}", name_, why);
}

void Channel::handshake(const transport::Secret& secret, Deadline deadline) {
  const auto expect = [&](std::size_t bytes, std::string_view what) {
    try {
      if (!read_until(bytes, deadline)) {
        fail(Cause::kTimeout, "{} did not send its {} within {}", name_, what,
             format_seconds(to_seconds(deadline.allowed())));
      }
    } catch (const Error& error) {
      if (error.cause() != Cause::kRemote) throw;
      fail(Cause::kSystem, "{} closed the connection before its {}", name_, what);
    }
    filled_ = 0;
  };
  expect(kHelloBytes, "hello");
  Nonce server;
  try {
    server = read_hello(std::span(buffer_).first<kHelloBytes>());
  } catch (const Error& error) {
    fail(error.cause(), "{}: {}", name_, error.what());
  }
  const Nonce client = random_nonce();
  send(make_proof(secret, server, client), deadline);
  expect(kVerdictBytes, "verdict");
  const auto verdict = std::span(buffer_).first<kVerdictBytes>();
  if (verdict[0] != std::byte{1}) {
    fail(Cause::kRemote,
         "{} rejected this process: wrong secret. TOMBOLO_SECRET must be the same on every rank", name_);
  }
  const auto store = check_verdict(secret, server, client, verdict);
  if (!store) {
    fail(Cause::kRemote, "{} does not know the secret itself: it belongs to another job", name_);
  }
  store_ = *store;
}

void Channel::send(std::span<const std::byte> frame, Deadline deadline) {
  while (!frame.empty()) {
    const ssize_t sent = transport::kernel().send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      frame = frame.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket_.get(), POLLOUT, deadline)) {
        fail(Cause::kTimeout, "{} took nothing for {}", name_,
             format_seconds(to_seconds(deadline.allowed())));
      }
    } else if (errno != EINTR) {
      lost(errno_text(errno));
    }
  }
}

bool Channel::read_until(std::size_t bytes, Deadline deadline) {
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  while (filled_ < bytes) {
    const ssize_t got = transport::kernel().recv(socket_.get(), buffer_.data() + filled_, bytes - filled_, 0);
    if (got > 0) {
      filled_ += static_cast<std::size_t>(got);
    } else if (got == 0) {
      lost("it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (deadline.passed() || !wait_for(socket_.get(), POLLIN, deadline)) return false;
    } else if (errno != EINTR) {
      lost(errno_text(errno));
    }
  }
  return true;
}

std::optional<Frame> Channel::receive(Deadline deadline) {
  if (!read_until(kLengthBytes, deadline)) return std::nullopt;
  const std::size_t length = read_length(std::span(buffer_).first<kLengthBytes>());
  if (length < kHeaderBytes || length > kMaxFrame) lost("it sent a frame of an absurd length");
  if (!read_until(kLengthBytes + length, deadline)) return std::nullopt;
  filled_ = 0;
  const Frame frame = parse(std::span(buffer_).subspan(kLengthBytes, length));
  if (frame.kind == Kind::kServerClosing) {
    server_closed_ = true;
    lost("rank 0 has closed it");
  }
  return frame;
}

Watch::Watch(std::unique_ptr<Channel> channel, std::string_view key, std::string_view presence,
             Deadline deadline)
    : channel_(std::move(channel)) {
  if (!presence.empty()) hold(presence, deadline);
  channel_->send(encode(Kind::kGet, ++last_request_, key, {}), deadline);
}

void Watch::hold(std::string_view presence, Deadline deadline) {
  channel_->send(encode(Kind::kHold, ++last_request_, presence, {}), deadline);
  const auto answer = channel_->receive(deadline);
  if (!answer) {
    fail(Cause::kTimeout, "{} did not set '{}' within {}", channel_->name(), presence,
         format_seconds(to_seconds(deadline.allowed())));
  }
  if (answer->kind == Kind::kRefused) {
    fail(Cause::kRemote, "{}: key '{}': {}", channel_->name(), presence,
         std::string_view(reinterpret_cast<const char*>(answer->value.data()), answer->value.size()));
  }
}

Watch::News Watch::check() {
  if (news_ != News::kNone) return news_;
  try {
    await_value(Deadline::after(Duration::zero()));
  } catch (const Error&) {
    news_ = why_it_ended();
  }
  return news_;
}

bool Watch::await_value(Deadline deadline) {
  for (;;) {
    const auto frame = channel_->receive(deadline);
    if (!frame) return false;
    if (question_ == 0 || frame->request != question_) {
      value_.assign(frame->value.begin(), frame->value.end());
      news_ = News::kValue;
      return true;
    }
    question_ = 0;
    answer_ = frame->kind != Kind::kAbsent;
  }
}

void Watch::ask(std::string_view key) {
  TOMBOLO_CHECK(question_ == 0, "a question is open: {}", question_);
  answer_.reset();
  if (news_ != News::kNone) return;
  try {
    // It fits the socket: at most one question is under way.
    channel_->send(encode(Kind::kTryGet, question_ = ++last_request_, key, {}),
                   Deadline::after(Duration::zero()));
  } catch (const Error&) {
    news_ = why_it_ended();
  }
}

std::optional<bool> Watch::answer() {
  check();
  return std::exchange(answer_, std::nullopt);
}

bool Watch::has_ended(Deadline deadline) {
  if (news_ == News::kStoreLeft || news_ == News::kStoreLost) return true;
  try {
    // Behind the value, and the answer to a question, comes nothing but the end.
    while (await_value(deadline)) {
    }
    return false;
  } catch (const Error&) {
    if (news_ == News::kNone) news_ = why_it_ended();
    return true;
  }
}

}  // namespace store

namespace {

class Client final : public Store {
 public:
  Client(std::unique_ptr<store::Channel> channel, Duration patience)
      : channel_(std::move(channel)), patience_(patience) {}

  void set(std::string_view key, std::span<const std::byte> value) override {
    ask(store::Kind::kSet, key, value, Deadline::after(patience_));
  }
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override {
    return to_vector(ask(store::Kind::kGet, key, {}, deadline));
  }
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
    const store::Frame frame = ask(store::Kind::kTryGet, key, {}, Deadline::after(patience_));
    if (frame.kind == store::Kind::kAbsent) return std::nullopt;
    return to_vector(frame);
  }
  std::vector<std::byte> claim(std::string_view key, std::span<const std::byte> value) override {
    return to_vector(ask(store::Kind::kClaim, key, value, Deadline::after(patience_)));
  }
  void hold(std::string_view key) override { ask(store::Kind::kHold, key, {}, Deadline::after(patience_)); }
  std::int64_t add(std::string_view key, std::int64_t by) override {
    const store::Frame frame =
        ask(store::Kind::kAdd, key, std::as_bytes(std::span(&by, 1)), Deadline::after(patience_));
    std::int64_t value = 0;
    if (frame.value.size() != sizeof(value)) {
      fail(Cause::kRemote, "{}: an answer of {} bytes to adding", channel_->name(), frame.value.size());
    }
    std::memcpy(&value, frame.value.data(), sizeof(value));
    return value;
  }

 private:
  static std::vector<std::byte> to_vector(const store::Frame& frame) {
    return {frame.value.begin(), frame.value.end()};
  }

  store::Frame ask(store::Kind kind, std::string_view key, std::span<const std::byte> value,
                   Deadline deadline) {
    const std::uint32_t request = ++last_request_;
    channel_->send(store::encode(kind, request, key, value), deadline);
    for (;;) {
      const auto frame = channel_->receive(deadline);
      if (!frame) {
        fail(Cause::kTimeout, "{} has no key '{}' after {}", channel_->name(), key,
             format_seconds(to_seconds(deadline.allowed())));
      }
      if (frame->request != request) continue;  // the late answer to a get that was given up
      if (frame->kind == store::Kind::kRefused) {
        fail(Cause::kRemote, "{}: key '{}': {}", channel_->name(), key,
             std::string_view(reinterpret_cast<const char*>(frame->value.data()), frame->value.size()));
      }
      return *frame;
    }
  }

  std::unique_ptr<store::Channel> channel_;
  Duration patience_;
  std::uint32_t last_request_ = 0;
};

std::unique_ptr<Store> client(std::unique_ptr<store::Channel> channel, Deadline deadline, const Log& log) {
  log.trace("connected to {}", channel->name());
  return std::make_unique<Client>(std::move(channel), deadline.allowed());
}

class NetworkAccess final : public StoreAccess {
 public:
  NetworkAccess(std::string address, int port, const transport::Secret& secret,
                const std::optional<StoreId>& id)
      : address_(std::move(address)), port_(port), secret_(secret), id_(id) {}

  std::unique_ptr<Store> connect(Deadline deadline, Log log) const override {
    return client(reach(deadline, Store::IfNobodyListens::kRetry), deadline, log);
  }
  std::unique_ptr<Store> reconnect(Deadline deadline, Log log) const override {
    return client(reach(deadline, Store::IfNobodyListens::kFail), deadline, log);
  }
  std::unique_ptr<StoreWatch> watch(std::string_view key, std::string_view presence,
                                    Deadline deadline) const override {
    return std::make_unique<store::Watch>(reach(deadline, Store::IfNobodyListens::kFail), key, presence,
                                          deadline);
  }

 private:
  std::unique_ptr<store::Channel> reach(Deadline deadline, Store::IfNobodyListens otherwise) const {
    auto channel = store::Channel::connect(address_, port_, secret_, deadline, otherwise);
    const std::lock_guard lock(mutex_);
    if (!id_) id_ = channel->store();
    if (*id_ != channel->store()) {
      fail(Cause::kRemote,
           "{} is gone: another store listens there now, in which this job has not met. That is another "
           "job's, "
           "or of a later start of this one; end what is left of the earlier one",
           channel->name());
    }
    return channel;
  }

  std::string address_;
  int port_;
  transport::Secret secret_;
  mutable std::mutex mutex_;
  mutable std::optional<StoreId> id_;  // under mutex_; nothing before the first connection
};

}  // namespace

std::shared_ptr<const StoreAccess> store_at(std::string address, int port, const transport::Secret& secret,
                                            const std::optional<StoreId>& id) {
  return std::make_shared<NetworkAccess>(std::move(address), port, secret, id);
}

std::unique_ptr<Store> Store::connect(const std::string& address, int port, const transport::Secret& secret,
                                      Deadline deadline, Log log, IfNobodyListens otherwise) {
  return client(store::Channel::connect(address, port, secret, deadline, otherwise), deadline, log);
}

}  // namespace tombolo::collectives
