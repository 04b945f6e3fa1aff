// For tests: a peer that holds the secret and whose bytes the test sends by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <memory>

#include "transport/bootstrap/handshake.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/stream/wire.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {

/// A blocking socket, connected to the listener's first address.
inline Descriptor connected_to(const Listener& listener) {
  auto address = sockets::SocketAddress::parse("127.0.0.1", listener.endpoint().offers[0].port);
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.get(), address.get(), address.length), 0);
  return socket;
}

/// A hello for the listener, with a fresh number for the connection.
inline bootstrap::Hello hello_for(const Listener& listener) {
  bootstrap::Hello hello;
  random_bytes(hello.connection);
  random_bytes(hello.nonce);
  hello.process = listener.endpoint().process;
  hello.listener = listener.endpoint().listener;
  hello.patience_ms = 60'000;
  hello.host = "raw";
  hello.nic = "eth9";
  return hello;
}

/// The connecting end's handshake by hand. `meanwhile` lets the accepting end work.
inline bootstrap::Reply shake_hands(const Descriptor& socket, const bootstrap::Hello& hello,
                                    const std::function<void()>& meanwhile,
                                    const Secret& secret = Secret::from_text("the tests' secret")) {
  const auto hear = [&](std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t have = 0;
    for (auto deadline = soon(); have < size && !deadline.passed();) {
      meanwhile();
      ssize_t got = recv(socket.get(), bytes.data() + have, size - have, MSG_DONTWAIT);
      if (got > 0) have += static_cast<std::size_t>(got);
    }
    EXPECT_EQ(have, size);
    return bytes;
  };
  const auto say = [&](std::span<const std::byte> bytes) {
    EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  };
  const auto greeting = hello.encode();
  say(greeting);
  const auto challenge = hear(bootstrap::Challenge::kBytes);
  say(bootstrap::Proof{bootstrap::proof_mac(secret, greeting, challenge)}.encode());
  const auto reply = hear(bootstrap::Reply::kBytes);
  auto decoded = bootstrap::Reply::decode(reply);
  EXPECT_EQ(decoded.mac, bootstrap::reply_mac(secret, greeting, challenge, reply));
  return decoded;
}

struct RawPeer {
  std::vector<Descriptor> sockets;  // blocking, by stream
  std::unique_ptr<Listener> listener;
  bootstrap::Hello hello;
  std::unique_ptr<Connection> connection;

  explicit RawPeer(Router& router, std::uint16_t streams = 1)
      : listener(router.listen()), hello(hello_for(*listener)) {
    hello.streams = streams;
    const auto accept = [&] {
      if (!connection) connection = listener->accept();
    };
    for (hello.stream = 0; hello.stream < streams; ++hello.stream) {
      Descriptor socket = connected_to(*listener);
      EXPECT_EQ(shake_hands(socket, hello, accept).status, bootstrap::HandshakeStatus::kOk);
      sockets.push_back(std::move(socket));
    }
    hello.stream = 0;
    for (auto deadline = test::soon(); !connection && !deadline.passed();) accept();
  }

  static void say(const Descriptor& socket, std::span<const std::byte> bytes) {
    EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void say(std::size_t stream, const tcp::FrameHeader& header, std::size_t payload = 0) {
    std::vector<std::byte> bytes(tcp::kHeaderBytes + payload, std::byte{0x33});
    encode(header, std::span(bytes).first<tcp::kHeaderBytes>());
    say(sockets[stream], bytes);
  }
};

}  // namespace tombolo::transport::test
