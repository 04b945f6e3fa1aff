// For tests: a peer that holds the secret and whose bytes the test sends by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/socket.h"
#include "transport/tcp/wire.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {

struct RawPeer {
  std::vector<Descriptor> sockets;  // non-blocking, by stream
  std::unique_ptr<Connection> connection;

  explicit RawPeer(Router& router, std::uint16_t streams = 1) {
    auto listener = router.listen();
    bootstrap::Hello hello;
    random_bytes(hello.connection);
    hello.streams = streams;
    hello.listener = listener->endpoint().listener;
    hello.patience_ms = 60'000;
    hello.host = "raw";
    hello.nic = "eth9";
    for (hello.stream = 0; hello.stream < streams; ++hello.stream) {
      auto address = bootstrap::SocketAddress::parse("127.0.0.1", listener->endpoint().offers[0].port);
      Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(socket.get(), address.get(), address.length), 0);
      auto bytes = hello.encode();
      say(socket, bytes);
      std::vector<std::byte> reply(bootstrap::Reply::kBytes);
      std::size_t have = 0;
      for (auto deadline = test::soon(); have < reply.size() && !deadline.passed();) {
        connection = listener->accept();
        ssize_t got = recv(socket.get(), reply.data() + have, reply.size() - have, MSG_DONTWAIT);
        if (got > 0) have += static_cast<std::size_t>(got);
      }
      bootstrap::Finish finish;
      finish.mac = bootstrap::finish_mac(Secret::from_text("the tests' secret"), bytes, reply);
      say(socket, finish.encode());
      sockets.push_back(std::move(socket));
    }
    for (auto deadline = test::soon(); !connection && !deadline.passed();) connection = listener->accept();
    for (const Descriptor& socket : sockets) {
      std::byte verdict{0xff};
      EXPECT_EQ(recv(socket.get(), &verdict, bootstrap::kVerdictBytes, 0),
                static_cast<ssize_t>(bootstrap::kVerdictBytes));
      EXPECT_EQ(verdict, std::byte{0});
    }
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
