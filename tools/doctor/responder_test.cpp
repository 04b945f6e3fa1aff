// The protocol that a responder answers, byte by byte; pair_judgement_test.cpp measures over it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <string>

#include "base/descriptor.h"
#include "tools/doctor/pair.h"
#include "transport/bytes.h"

namespace tombolo::doctor {
namespace {

/// A blocking socket that is connected to this port of 127.0.0.1; a read of it ends after 20 s.
Descriptor client_of(int port, int type) {
  Descriptor socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const timeval patience{20, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return socket;
}

void say_to(const Descriptor& socket, const std::string& bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
}

/// So many bytes; fewer where the other end closed or was silent.
std::string heard_from(const Descriptor& socket, std::size_t bytes) {
  std::string all(bytes, '\0');
  const ssize_t got = ::recv(socket.get(), all.data(), bytes, MSG_WAITALL);
  all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return all;
}

class ResponderProtocol : public ::testing::Test {
 protected:
  static HostFacts facts_at(const std::vector<std::string>& addresses) {
    HostFacts facts;
    for (const std::string& address : addresses) {
      facts.nics.emplace_back().name = "eth" + std::to_string(facts.nics.size());
      facts.nics.back().address = address;
    }
    return facts;
  }
  HostFacts facts_ = facts_at({"127.0.0.1"});
  Responder responder_{facts_};
};

TEST_F(ResponderProtocol, TellsItsTimeOfDayAsOftenAsAsked) {
  const Descriptor client = client_of(facts_.nics[0].tcp_port, SOCK_STREAM);
  say_to(client, "cc");
  const std::string stamps = heard_from(client, 16);
  ASSERT_EQ(stamps.size(), 16U);
  const auto* bytes = reinterpret_cast<const std::byte*>(stamps.data());
  const auto first = transport::load_little_endian<std::uint64_t>(bytes),
             second = transport::load_little_endian<std::uint64_t>(bytes + 8);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(static_cast<double>(first) * 1e-9, std::chrono::duration<double>(now).count(), 60);
  EXPECT_GE(second, first);
}

TEST_F(ResponderProtocol, AnswersABulkOnceItsLastByteHasCome) {
  const Descriptor client = client_of(facts_.nics[0].tcp_port, SOCK_STREAM);
  say_to(client, std::string("b\x05\0", 3));
  say_to(client, std::string("\0\0ab", 4));
  char early = 0;
  EXPECT_EQ(::recv(client.get(), &early, 1, MSG_DONTWAIT), -1) << "three bytes are still to come";
  say_to(client, "cbc");  // the bulk's
  say_to(client, "c");    // a question
  const std::string answer = heard_from(client, 9);
  ASSERT_EQ(answer.size(), 9U);
  EXPECT_EQ(answer[0], 1);
}

TEST_F(ResponderProtocol, ClosesOnWhatItDoesNotKnowAndServesOthers) {
  const Descriptor stranger = client_of(facts_.nics[0].tcp_port, SOCK_STREAM);
  const Descriptor client = client_of(facts_.nics[0].tcp_port, SOCK_STREAM);
  say_to(stranger, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(heard_from(stranger, 1), "");
  say_to(client, "c");
  EXPECT_EQ(heard_from(client, 8).size(), 8U);
}

TEST_F(ResponderProtocol, AnswersPacketsWithTheirLengthButNoAnswers) {
  const Descriptor client = client_of(facts_.nics[0].udp_port, SOCK_DGRAM);
  say_to(client, "12345678");  // as short as an answer: two responders would answer each other for ever
  say_to(client, std::string(100, 'x'));
  const std::string answer = heard_from(client, 100);
  ASSERT_EQ(answer.size(), 4U);
  EXPECT_EQ(transport::load_little_endian<std::uint32_t>(reinterpret_cast<const std::byte*>(answer.data())),
            100U);
}

TEST_F(ResponderProtocol, EndsAlthoughClientsAreConnected) {
  HostFacts facts = facts_at({"127.0.0.1"});
  Descriptor client;
  {
    const Responder other(facts);
    client = client_of(facts.nics[0].tcp_port, SOCK_STREAM);
    say_to(client, "c");
    EXPECT_EQ(heard_from(client, 8).size(), 8U);
  }
  EXPECT_EQ(heard_from(client, 1), "");
}

TEST_F(ResponderProtocol, LeavesOutAnAddressThatIsNotItsOwn) {
  // The middle one is for documentation (RFC 5737), and nobody's.
  HostFacts facts = facts_at({"127.0.0.1", "203.0.113.1", "127.0.0.2"});
  const Responder responder(facts);
  EXPECT_GT(facts.nics[0].tcp_port, 0);
  EXPECT_EQ(facts.nics[1].tcp_port, 0);
  EXPECT_EQ(facts.nics[1].udp_port, 0);
  EXPECT_GT(facts.nics[2].tcp_port, 0);
  EXPECT_GT(facts.nics[2].udp_port, 0);
}

}  // namespace
}  // namespace tombolo::doctor
