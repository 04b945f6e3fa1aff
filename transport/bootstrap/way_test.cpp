#include "transport/bootstrap/way.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/tcp/backend.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::bootstrap {
namespace {

using std::chrono::milliseconds;

/// An address that is not that of this end.
constexpr const char* kElsewhere = "127.0.0.2";

/// A socket that holds a port, which is put into `port`, and does not listen: nobody else listens there
/// either.
Descriptor hold_a_port(const char* address, std::uint16_t& port) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto any = sockets::SocketAddress::parse(address, 0);
  EXPECT_EQ(::bind(made.get(), any.get(), any.length), 0);
  sockaddr_in held{};
  socklen_t length = sizeof held;
  EXPECT_EQ(::getsockname(made.get(), reinterpret_cast<sockaddr*>(&held), &length), 0);
  port = ntohs(held.sin_port);
  return made;
}

Offer offer(const std::string& nic, const std::string& address, std::uint64_t rate) {
  Offer made;
  made.nic = nic;
  made.address = address;
  made.port = 4711;
  made.rate_bits_per_second = rate;
  return made;
}

Way way_to(const Offer& to) {
  Way way{offer("eth0", "127.0.0.1", 10'000'000'000), to, {}, {}, 3, false, Carrier::kTcp, {}};
  way.route.peer_host = "b0";
  way.options.label = 17;
  way.options.peer_name = "rank 3";
  return way;
}

TEST(Target, IsDescribedByWhatIsKnownOfThePeer) {
  Way way = way_to(offer("ib1", "127.0.0.1", 4'000'000'000));
  way.tls = true;
  auto target = target_of(way, way.from, way.to);
  EXPECT_EQ(target->description, "connect to rank 3 on host b0 (NIC eth0 127.0.0.1 -> ib1 127.0.0.1:4711)");
  EXPECT_DOUBLE_EQ(target->bytes_per_second, 5e8) << "what the slower of both NICs promises";
  EXPECT_TRUE(target->tls);
  way.options.peer_name.clear();
  way.route.peer_host.clear();
  way.to.nic.clear();
  target = target_of(way, way.from, way.to);
  EXPECT_EQ(target->description, "connect to host ? (NIC eth0 127.0.0.1 -> ? 127.0.0.1:4711)");
}

TEST(Target, WithoutAnAddressIsAnError) {
  const Way way = way_to(offer("ib1", "b0.example", 0));
  EXPECT_THROW(target_of(way, way.from, way.to), Error);
}

TEST(HelloOfAWay, SaysWhatTheConnectionIsAndHasANumberOfItsOwn) {
  Way way = way_to(offer("eth1", "127.0.0.1", 0));
  way.carrier = Carrier::kShm;
  way.route.kind = topology::NicKind::kRoce;
  way.route.emulated = true;
  way.process = 5;
  const Hello hello = hello_of(way, 6);
  EXPECT_EQ(hello.process, 5u);
  EXPECT_EQ(hello.sender, 6u);
  EXPECT_EQ(hello.label, 17u);
  EXPECT_EQ(hello.listener, 3u);
  EXPECT_EQ(hello.carrier, Carrier::kShm);
  EXPECT_EQ(hello.kind, topology::NicKind::kRoce);
  EXPECT_TRUE(hello.emulated);
  EXPECT_NE(hello.connection, hello_of(way, 6).connection);
}

class DialingTest : public testing::Test {
 protected:
  static std::shared_ptr<Local> make_local(const Clock& clock) {
    auto local = std::make_shared<Local>();
    local->host = "here";
    local->secret = Secret::from_text("the tests' secret");
    local->idle_timeout = std::chrono::seconds(60);
    local->backends = {std::make_shared<tcp::TcpBackend>(TcpOptions{}, std::vector<NicLimit>{}, Log{})};
    local->clock = &clock;
    return local;
  }
  static Endpoint self() {
    Endpoint endpoint;
    endpoint.host = "here";
    endpoint.offers = {offer("lo", "127.0.0.1", 0)};
    return endpoint;
  }
};

TEST_F(DialingTest, MakesAsManyStreamsAsItIsToldWithNumbersOfTheirOwn) {
  const auto local = make_local(Clock::steady());
  Acceptor acceptor(std::make_shared<ProcessHelpers>(), local, self());
  const auto inbox = std::make_shared<Inbox>();
  Way way = way_to(acceptor.endpoint().offers[0]);
  way.listener = acceptor.open_listener(inbox);
  way.process = acceptor.endpoint().process;
  way.route.peer_host.clear();
  Dialing dialing(local, way, target_of(way, way.from, way.to), hello_of(way, 6), 3);
  for (const auto deadline = test::soon(); !dialing.poll();) {
    ASSERT_FALSE(deadline.passed());
    acceptor.progress();
    std::vector<pollfd> handles{{acceptor.wait_handle(), POLLIN, 0}};
    dialing.append_wait_handles(handles);
    ::poll(handles.data(), handles.size(), 20);
  }
  ASSERT_EQ(dialing.streams().size(), 3u);
  std::vector<bool> seen(3);
  Nonce connection{};
  for (std::size_t i = 0; i < 3; ++i) {
    auto stream = inbox->take();
    ASSERT_TRUE(stream);
    EXPECT_EQ(stream->hello.streams, 3u);
    ASSERT_LT(stream->hello.stream, 3u);
    EXPECT_FALSE(seen[stream->hello.stream]);
    seen[stream->hello.stream] = true;
    if (i > 0) {
      EXPECT_EQ(stream->hello.connection, connection);
    }
    connection = stream->hello.connection;
  }
  // The peer's names are added where they were not known, and only there.
  Route route;
  route.peer_nic = "ib7";
  dialing.complete(route);
  EXPECT_EQ(route.peer_host, "here");
  EXPECT_EQ(route.peer_nic, "ib7");
  EXPECT_EQ(route.peer_address, sockets::to_text(way.to.address, way.to.port));
}

TEST_F(DialingTest, GivesUpAtItsDeadlineWithTheLastTroubleAndWhatToDo) {
  FakeClock clock;
  const auto local = make_local(clock);
  Way way = way_to(offer("eth1", kElsewhere, 0));
  const Descriptor held = hold_a_port(kElsewhere, way.to.port);
  way.options.deadline = milliseconds(900);
  Dialing dialing(local, way, target_of(way, way.from, way.to), hello_of(way, 6), 1);
  for (const auto deadline = test::soon(); dialing.streams()[0].last_trouble().empty();) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_FALSE(dialing.poll());
  }
  clock.advance(milliseconds(899));
  EXPECT_FALSE(dialing.poll());
  clock.advance(milliseconds(1));
  try {
    dialing.poll();
    ADD_FAILURE() << "it did not give up";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kTimeout);
    test::expect_in(error.what(), "connect to rank 3 on host b0 (NIC eth0");
    test::expect_in(error.what(), "not connected within 900 ms; last: ");
    test::expect_in(error.what(), "refused");
    test::expect_in(error.what(), "docs/cluster-file.md");
  }
}

TEST_F(DialingTest, GivesUpSoonWhereNothingListensAnyMore) {
  for (const bool here : {true, false}) {
    const char* const address = here ? "127.0.0.1" : kElsewhere;
    FakeClock clock;
    const auto local = make_local(clock);
    Way way = way_to(offer("eth1", address, 0));
    const Descriptor held = hold_a_port(address, way.to.port);
    way.options.deadline = std::chrono::minutes(5);
    Dialing dialing(local, way, target_of(way, way.from, way.to), hello_of(way, 6), 1);
    try {
      for (const auto deadline = test::soon(); !deadline.passed();) {
        dialing.poll();
        if (!here) clock.advance(milliseconds(10));
        ::poll(nullptr, 0, 1);  // the kernel's answer goes by real time
      }
      ADD_FAILURE() << "it did not give up";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      test::expect_in(error.what(), "connect to rank 3 on host b0 (NIC eth0");
      test::expect_in(error.what(), "nothing listens there any more");
    }
  }
}

TEST_F(DialingTest, OneRefusalIsNotTheEnd) {
  const auto local = make_local(Clock::steady());
  Way way = way_to(offer("eth1", kElsewhere, 0));
  const Descriptor late = hold_a_port(kElsewhere, way.to.port);
  Dialing dialing(local, way, target_of(way, way.from, way.to), hello_of(way, 6), 1);
  const auto deadline = test::soon();
  while (!dialing.streams()[0].refused()) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_FALSE(dialing.poll());
  }
  ASSERT_EQ(::listen(late.get(), 8), 0);
  while (dialing.streams()[0].state() < Dial::State::kHandshake) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_FALSE(dialing.poll());
  }
  EXPECT_EQ(dialing.streams()[0].refused_for(), Duration::zero());
}

TEST_F(DialingTest, ItsHandlesEndASleepAtTheDeadline) {
  const auto local = make_local(Clock::steady());
  std::uint16_t port = 0;
  const Descriptor silent = sockets::listen_on("lo", "127.0.0.1", port);  // nobody accepts
  Way way = way_to(offer("eth1", "127.0.0.1", 0));
  way.to.port = port;
  way.options.deadline = milliseconds(300);
  Dialing dialing(local, way, target_of(way, way.from, way.to), hello_of(way, 6), 1);
  const auto deadline = test::soon();
  EXPECT_THROW(
      {
        while (!dialing.poll() && !deadline.passed()) {
          std::vector<pollfd> handles;
          dialing.append_wait_handles(handles);
          ASSERT_GT(::poll(handles.data(), handles.size(), deadline.poll_milliseconds()), 0);
        }
      },
      Error);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
