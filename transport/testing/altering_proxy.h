// For tests: a proxy between the two ends of a connection that may alter what passes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <thread>
#include <vector>

#include "transport/sockets/socket.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {

/// Listens on a port of 127.0.0.1 and passes every stream on to `target`, in a thread of its own.
class AlteringProxy {
 public:
  /// Called in the proxy's thread with what is about to pass: the stream's number (from 0, in the order in
  /// which they came), whether it goes from the connecting end to the accepting one, the count of bytes that
  /// passed that way before, and the bytes.
  using Alter =
      std::function<void(std::size_t stream, bool forward, std::uint64_t offset, std::span<std::byte>)>;

  AlteringProxy(std::uint16_t target, Alter alter) : target_(target), alter_(std::move(alter)) {
    door_ = sockets::listen_on("lo", "127.0.0.1", port_);
    thread_ = std::thread([this] { run(); });
  }
  ~AlteringProxy() {
    stop_ = true;
    thread_.join();
  }
  AlteringProxy(const AlteringProxy&) = delete;
  AlteringProxy& operator=(const AlteringProxy&) = delete;

  /// The listener's endpoint, with the proxy's address in place of its own.
  Endpoint in_front_of(Endpoint endpoint) const {
    for (Offer& offer : endpoint.offers) offer.port = port_;
    return endpoint;
  }
  std::size_t streams() const noexcept { return streams_; }

 private:
  struct Way {
    std::vector<std::byte> held;
    std::size_t passed = 0;  // of what is held
    std::uint64_t offset = 0;
    bool ended = false;
  };
  struct Stream {
    std::size_t number;
    std::array<Descriptor, 2> ends;  // the connecting end's, the accepting end's
    std::array<Way, 2> from;
    bool gone = false;
  };

  void run() {
    std::vector<pollfd> waiting;
    while (!stop_) {
      take_new();
      waiting.assign({{door_.get(), POLLIN, 0}});
      for (Stream& stream : open_) {
        for (std::size_t i = 0; i < 2; ++i) {
          short events = 0;
          if (stream.from[i].held.empty() && !stream.from[i].ended) events |= POLLIN;
          if (!stream.from[1 - i].held.empty()) events |= POLLOUT;
          waiting.push_back({stream.ends[i].get(), events, 0});
        }
      }
      ::poll(waiting.data(), waiting.size(), 5);
      for (Stream& stream : open_) {
        pass(stream, 0);
        pass(stream, 1);
      }
      std::erase_if(open_, [](const Stream& stream) {
        return stream.gone || (stream.from[0].ended && stream.from[1].ended && stream.from[0].held.empty() &&
                               stream.from[1].held.empty());
      });
    }
  }

  void take_new() {
    Descriptor near(accept4(door_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!near) return;
    Descriptor far =
        sockets::start_connect("lo", "127.0.0.1", sockets::SocketAddress::parse("127.0.0.1", target_));
    pollfd connected{far.get(), POLLOUT, 0};
    ::poll(&connected, 1, 1000);
    Stream stream;
    stream.number = streams_++;
    stream.ends = {std::move(near), std::move(far)};
    open_.push_back(std::move(stream));
  }

  void pass(Stream& stream, std::size_t from) {
    Way& way = stream.from[from];
    const int in = stream.ends[from].get(), out = stream.ends[1 - from].get();
    if (way.held.empty() && !way.ended && !stream.gone) {
      way.held.resize(64 * 1024);
      const ssize_t got = recv(in, way.held.data(), way.held.size(), MSG_DONTWAIT);
      const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
      way.held.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      if (got > 0) {
        alter_(stream.number, from == 0, way.offset, way.held);
        way.offset += way.held.size();
      } else if (got == 0) {
        way.ended = true;
        shutdown(out, SHUT_WR);
      } else if (!later) {
        reset(stream);
      }
    }
    while (way.passed < way.held.size() && !stream.gone) {
      const ssize_t sent =
          send(out, way.held.data() + way.passed, way.held.size() - way.passed, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (sent < 0) return reset(stream);
      way.passed += static_cast<std::size_t>(sent);
    }
    way.held.clear();
    way.passed = 0;
  }

  static void reset(Stream& stream) {
    const linger hard{1, 0};
    for (const Descriptor& end : stream.ends)
      setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    stream.gone = true;
  }

  std::uint16_t port_ = 0, target_;
  Alter alter_;
  Descriptor door_;
  std::list<Stream> open_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> streams_{0};
  std::thread thread_;
};

/// Flips one bit where the stream's byte number `at` is among the bytes.
inline void flip_bit(std::uint64_t at, std::uint64_t offset, std::span<std::byte> bytes) {
  if (at >= offset && at - offset < bytes.size()) bytes[at - offset] ^= std::byte{0x10};
}

}  // namespace tombolo::transport::test
