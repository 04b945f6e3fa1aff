// Strangers at the listener's port, and listeners that are not what they should be.
#include "transport/bootstrap/handshake.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <functional>
#include <mutex>
#include <set>

#include "transport/bytes.h"
#include "transport/sockets/socket.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Keeps what was logged.
class Recorder {
 public:
  Log log() {
    return Log(LogLevel::kInfo, [this](LogLevel, std::string_view text) {
      const std::lock_guard guard(lock_);  // the transport's own thread logs too
      lines_.emplace_back(text);
    });
  }
  std::size_t count(const std::string& part) const {
    const std::lock_guard guard(lock_);
    return static_cast<std::size_t>(std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }
  std::string all() const {
    const std::lock_guard guard(lock_);
    std::string text;
    for (const auto& line : lines_) text += line + "\n";
    return text;
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::string> lines_;
};

class Handshake : public testing::Test {
 protected:
  Handshake() {
    RouterOptions options = test::router_options("right");
    options.log = recorder_.log();
    options.clock = &clock_;
    options.helpers = std::make_shared<ProcessHelpers>(clock_);
    right_ = std::make_unique<Router>(options);
    listener_ = right_->listen();
  }

  /// A stranger's blocking socket at the listener's port.
  Descriptor stranger() {
    auto address = sockets::SocketAddress::parse("127.0.0.1", listener_->endpoint().offers[0].port);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(socket.get(), address.get(), address.length), 0);
    return socket;
  }
  static void say(const Descriptor& socket, std::span<const std::byte> bytes) {
    ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static bool closed(const Descriptor& socket) {
    std::byte none{};
    const ssize_t got = recv(socket.get(), &none, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  Hello hello() const {
    Hello hello;
    hello.listener = listener_->endpoint().listener;
    hello.process = listener_->endpoint().process;
    random_bytes(hello.connection);
    random_bytes(hello.nonce);
    hello.host = "stranger";
    hello.nic = "eth9";
    hello.patience_ms = 30'000;
    return hello;
  }
  /// Lets the listener work until `done`; it must not accept anybody meanwhile.
  void serve_until(const std::function<bool()>& done) {
    for (auto deadline = test::soon(); !done();) {
      ASSERT_EQ(listener_->accept(), nullptr);
      ASSERT_FALSE(deadline.passed()) << recorder_.all();
      test::wait_on(*listener_);
    }
  }
  void expect_dropped(const std::string& why) {
    serve_until([&] { return recorder_.count(why) == 1; });
    expect_honest_peers_still_get_in();
  }
  void expect_honest_peers_still_get_in() {
    Router left(test::router_options("left"));
    auto pair = test::connect_pair(left, *listener_);
    ASSERT_TRUE(pair.first && pair.second);
  }
  std::vector<std::byte> hear(const Descriptor& socket, std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t have = 0;
    serve_until([&] {
      ssize_t got = recv(socket.get(), bytes.data() + have, size - have, MSG_DONTWAIT);
      if (got > 0) have += static_cast<std::size_t>(got);
      return have == size;
    });
    return bytes;
  }

  FakeClock clock_;
  Recorder recorder_;
  std::unique_ptr<Router> right_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(Handshake, GarbageIsDroppedWithOneLine) {
  auto socket = stranger();
  say(socket, std::as_bytes(std::span(std::string_view("GET / HTTP/1.1\r\n\r\n"))));
  expect_dropped("no Tombolo handshake");
}

TEST_F(Handshake, AFloodOfStrangersDoesNotFillTheLog) {
  const std::string line = "no Tombolo handshake";
  const auto knock = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const auto socket = stranger();
      say(socket, std::as_bytes(std::span(std::string_view("GET / HTTP/1.1\r\n\r\n"))));
      serve_until([&] { return closed(socket); });
    }
  };
  knock(200);
  EXPECT_EQ(recorder_.count(line), 5u) << recorder_.all();
  clock_.advance(seconds(9));
  knock(1);
  EXPECT_EQ(recorder_.count(line), 5u) << recorder_.all();
  clock_.advance(seconds(1));
  expect_honest_peers_still_get_in();
  knock(1);
  EXPECT_EQ(recorder_.count(line), 6u) << recorder_.all();
  EXPECT_EQ(recorder_.count("(196 more warnings like this one were left out before it)"), 1u)
      << recorder_.all();
}

TEST_F(Handshake, ATruncatedHelloIsDropped) {
  auto socket = stranger();
  auto bytes = hello().encode();
  say(socket, std::span(bytes).first(100));
  socket.reset();
  expect_dropped("closed before its hello was complete");
}

TEST_F(Handshake, AnotherVersionIsToldOurs) {
  auto socket = stranger();
  auto bytes = hello().encode();
  store_little_endian(&bytes[4], std::uint16_t{99});
  say(socket, bytes);
  auto challenge = Challenge::decode(hear(socket, Challenge::kBytes));
  EXPECT_EQ(challenge.status, HandshakeStatus::kOtherVersion);
  expect_dropped("it speaks protocol version 99, this build 6 and no other");
}

/// A hello as version 5 said it: it named no process, and ended with the NIC.
std::vector<std::byte> hello_of_version_5(const Hello& hello) {
  constexpr std::uint16_t kVersion = 5, kBytes = 192;
  ByteWriter writer;
  writer.raw(std::as_bytes(std::span(std::string_view("TMBO"))));
  writer.number(kVersion);
  writer.number(kBytes);
  writer.raw(hello.connection);
  writer.raw(hello.nonce);
  writer.number(hello.stream);
  writer.number(hello.streams);
  writer.number(hello.label);
  for (const auto one : {static_cast<std::uint8_t>(hello.kind), std::uint8_t{0}, std::uint8_t{0}})
    writer.number(one);
  writer.number(hello.patience_ms);
  writer.number(static_cast<std::uint8_t>(hello.purpose));
  for (const std::uint32_t one : {hello.listener, hello.epoch, hello.cluster}) writer.number(one);
  writer.number(hello.reply_port);
  writer.padded_text(hello.host, 64);
  writer.padded_text(hello.nic, 32);
  auto bytes = writer.take();
  bytes.resize(kBytes);
  return bytes;
}

TEST_F(Handshake, ThePreviousVersionIsTurnedAwayInWordsThatItReadsToo) {
  auto socket = stranger();
  say(socket, hello_of_version_5(hello()));
  // It reads the first eight bytes, and the status behind them, which no version has moved.
  const auto answer = hear(socket, Preamble::kBytes + 1);
  const auto preamble = Preamble::decode(std::span(answer).first<Preamble::kBytes>());
  ASSERT_TRUE(preamble);
  EXPECT_EQ(preamble->version, kProtocolVersion);
  EXPECT_EQ(answer.back(), static_cast<std::byte>(HandshakeStatus::kOtherVersion));
  expect_dropped("it speaks protocol version 5, this build 6 and no other; use one version on every host");
}

TEST_F(Handshake, ImpossibleValuesAreRefused) {
  auto socket = stranger();
  Hello wrong = hello();
  wrong.stream = 5;
  wrong.streams = 2;
  say(socket, wrong.encode());
  auto challenge = Challenge::decode(hear(socket, Challenge::kBytes));
  EXPECT_EQ(challenge.status, HandshakeStatus::kRefused);
  expect_dropped("stream 5 of 2");
}

TEST_F(Handshake, ACarrierThatNoBuildCanHaveIsRefused) {
  auto socket = stranger();
  Hello wrong = hello();
  wrong.carrier = static_cast<Carrier>(kMostCarriers);
  say(socket, wrong.encode());
  auto challenge = Challenge::decode(hear(socket, Challenge::kBytes));
  EXPECT_EQ(challenge.status, HandshakeStatus::kRefused);
  expect_dropped("unknown carrier 8");
}

TEST_F(Handshake, ACarrierThatThisProcessLacksIsRefusedAsSuch) {
  auto socket = stranger();
  Hello wrong = hello();
  wrong.carrier = Carrier{5};
  say(socket, wrong.encode());
  auto challenge = Challenge::decode(hear(socket, Challenge::kBytes));
  EXPECT_EQ(challenge.status, HandshakeStatus::kNoCarrier);
  expect_dropped("it asks for carrier 5, which this process cannot use");
}

// What a stranger hears must not help it to guess the secret, however weak that is: in the answers to its
// hello and to a wrong proof nothing depends on the secret.
TEST_F(Handshake, AStrangerHearsNothingThatDependsOnTheSecret) {
  auto socket = stranger();
  say(socket, hello().encode());
  const auto first = hear(socket, Challenge::kBytes);
  Challenge same;
  same.nonce = Challenge::decode(first).nonce;
  EXPECT_EQ(first, same.encode()) << "the challenge holds more than a random number";
  std::byte more{};
  EXPECT_EQ(recv(socket.get(), &more, sizeof more, MSG_DONTWAIT), -1) << "and nothing follows it";
  Proof guess;
  guess.mac.fill(std::byte{0x42});
  say(socket, guess.encode());
  Reply no;
  no.status = HandshakeStatus::kOtherSecret;
  EXPECT_EQ(hear(socket, Reply::kBytes), no.encode());
  EXPECT_EQ(recv(socket.get(), &more, sizeof more, 0), 0) << "it is closed then";
  expect_dropped("it holds another secret");
}

// Another secret's proof is another; and none can be used for another stream, with its own nonces.
TEST_F(Handshake, AProofOfAnEarlierStreamDoesNotServeAgain) {
  auto earlier = stranger();
  const auto greeting = hello().encode();
  say(earlier, greeting);
  const auto challenge = hear(earlier, Challenge::kBytes);
  const Proof proof{proof_mac(Secret::from_text("the tests' secret"), greeting, challenge)};
  auto socket = stranger();
  say(socket, greeting);
  hear(socket, Challenge::kBytes);
  say(socket, proof.encode());
  expect_dropped("it holds another secret");
}

// Who sits between two processes of a job may lead a stream to a third, which holds the secret too.
TEST_F(Handshake, AStreamThatIsMeantForAnotherProcessIsRefused) {
  for (const TlsUse use : {TlsUse::kOff, TlsUse::kOn}) {
    TlsOptions tls;
    tls.use = use;
    Recorder recorder;
    RouterOptions options = test::router_options("third", {}, tls);
    options.log = recorder.log();
    Router meant(test::router_options("meant", {}, tls)), third(options);
    auto there = third.listen();
    Endpoint astray = meant.listen()->endpoint();
    astray.listener = there->endpoint().listener;
    astray.offers = there->endpoint().offers;
    Router left(test::router_options("left", {}, tls));
    auto connecting = left.connect(astray, {});
    std::string text;
    for (auto deadline = test::soon(); text.empty() && !deadline.passed();) {
      ASSERT_EQ(there->accept(), nullptr);
      try {
        ASSERT_EQ(connecting->poll(), nullptr);
      } catch (const Error& error) {
        text = error.what();
      }
    }
    EXPECT_NE(text.find("another process answers there"), std::string::npos) << text;
    EXPECT_EQ(recorder.count("it means another process"), 1u) << recorder.all();
    EXPECT_EQ(there->accept(), nullptr);
  }
}

TEST_F(Handshake, AHalfOpenStrangerIsDroppedAfterItsTimeAndDisturbsNobody) {
  auto socket = stranger();
  serve_until([&] { return true; });
  expect_honest_peers_still_get_in();
  EXPECT_EQ(recorder_.count("dropped"), 0u) << recorder_.all();
  clock_.advance(seconds(11));
  expect_dropped("its handshake took too long");
}

TEST_F(Handshake, AFloodOfHalfOpenStrangersIsBounded) {
  std::vector<Descriptor> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(stranger());
    listener_->accept();
  }
  serve_until([&] { return std::ranges::count_if(flood, closed) == 44; });
  EXPECT_EQ(recorder_.count("too many unfinished handshakes"), 5u) << recorder_.all();
  expect_honest_peers_still_get_in();
}

TEST_F(Handshake, WithoutDescriptorsTheListenerRestsInsteadOfSpinning) {
  auto socket = stranger();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(socket.get());
  ASSERT_EQ(close(lowest_free), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<pollfd> handles;
  listener_->append_wait_handles(handles);
  const bool was_ready = poll(handles.data(), handles.size(), 1000) == 1;
  const auto accepted = listener_->accept();
  const int ready = poll(handles.data(), handles.size(), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(was_ready);
  EXPECT_EQ(accepted, nullptr);
  EXPECT_EQ(ready, 0) << "a sleeper would be woken at once, for nothing";
  EXPECT_EQ(recorder_.count("accept on NIC"), 1u) << recorder_.all();
  clock_.advance(seconds(1));
  expect_honest_peers_still_get_in();
}

TEST_F(Handshake, HonestPeersThatAreDroppedInAFloodTryAgainAndAllGetIn) {
  RouterOptions options = test::router_options("left");
  options.tcp.streams = 2;
  Router left(options);
  constexpr std::size_t kPeers = 200;  // with 400 streams
  std::vector<std::unique_ptr<Connecting>> connecting;
  for (std::size_t i = 0; i < kPeers; ++i) {
    ConnectOptions numbered;
    numbered.label = i;
    connecting.push_back(left.connect(listener_->endpoint(), numbered));
  }
  std::vector<std::unique_ptr<Connection>> mine(kPeers), theirs;
  // Everybody has said hello before the listener looks.
  for (auto& one : connecting) EXPECT_EQ(one->poll(), nullptr);
  for (std::size_t seen = 0; seen <= 2 * kPeers; seen += HalfOpenStreams::kMostAccepted)
    EXPECT_EQ(listener_->accept(), nullptr);
  auto ready = [&] { return std::ranges::all_of(mine, [](const auto& one) { return one != nullptr; }); };
  for (auto deadline = test::soon(); !(ready() && theirs.size() == kPeers);) {
    ASSERT_FALSE(deadline.passed()) << theirs.size() << " accepted";
    for (std::size_t i = 0; i < kPeers; ++i)
      if (!mine[i]) mine[i] = connecting[i]->poll();
    while (auto connection = listener_->accept()) theirs.push_back(std::move(connection));
  }
  EXPECT_GE(recorder_.count("too many unfinished handshakes"), 1u);
  std::set<std::uint64_t> labels;
  for (auto& connection : theirs) labels.insert(connection->label());
  EXPECT_EQ(labels.size(), kPeers);
  // Every pair carries a message.
  std::vector<std::uint64_t> got(kPeers);
  for (auto& connection : theirs) {
    Connection& other = *mine[connection->label()];
    std::uint64_t word = connection->label() * 3;
    Request* receive =
        connection->post_receive(std::as_writable_bytes(std::span(&got[connection->label()], 1)));
    Request* send = other.post_send(std::as_bytes(std::span(&word, 1)));
    std::size_t bytes = 0;
    ASSERT_EQ(test::finish(other, send, bytes), Outcome::kDone);
    ASSERT_EQ(test::finish(*connection, receive, bytes), Outcome::kDone);
    EXPECT_EQ(got[connection->label()], connection->label() * 3);
  }
  // All at once: each end's closing waits for the other.
  mine.clear();
}

TEST_F(Handshake, AConnectionMissingStreamsIsDroppedAfterItsTime) {
  auto socket = stranger();
  Hello first = hello();
  first.streams = 2;
  auto bytes = first.encode();
  say(socket, bytes);
  auto challenge = hear(socket, Challenge::kBytes);
  say(socket, Proof{proof_mac(Secret::from_text("the tests' secret"), bytes, challenge)}.encode());
  serve_until([&] { return true; });
  expect_honest_peers_still_get_in();
  clock_.advance(seconds(31));
  expect_dropped("1 of its 2 streams did not arrive");
}

TEST_F(Handshake, WorksWhenItsBytesComeOneByOne) {
  auto socket = stranger();
  Hello slow = hello();
  slow.label = 77;
  auto bytes = slow.encode();
  for (auto& byte : bytes) {
    say(socket, {&byte, 1});
    listener_->accept();
  }
  auto challenge = hear(socket, Challenge::kBytes);
  auto last = Proof{proof_mac(Secret::from_text("the tests' secret"), bytes, challenge)}.encode();
  std::unique_ptr<Connection> connection;
  for (auto& byte : last) {
    ASSERT_EQ(connection, nullptr);
    say(socket, {&byte, 1});
    connection = listener_->accept();
  }
  for (auto deadline = test::soon(); !connection && !deadline.passed();) connection = listener_->accept();
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(connection->label(), 77u);
  EXPECT_EQ(connection->route().peer_host, "stranger");
  EXPECT_EQ(connection->route().peer_nic, "eth9");
  EXPECT_EQ(connection->route().local_nic, "eth0");
}

TEST_F(Handshake, AWrongSecretIsNamedAtBothEnds) {
  RouterOptions options = test::router_options("left");
  options.secret = Secret::from_text("another");
  Router left(options);
  ConnectOptions named;
  named.peer_name = "rank 3";
  auto connecting = left.connect(listener_->endpoint(), named);
  std::string text;
  for (auto deadline = test::soon(); text.empty() && !deadline.passed();) {
    EXPECT_EQ(listener_->accept(), nullptr);
    try {
      EXPECT_EQ(connecting->poll(), nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      text = error.what();
    }
  }
  EXPECT_NE(text.find("different secrets"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 3 on host right"), std::string::npos) << text;
  EXPECT_NE(text.find("eth0"), std::string::npos) << text;
  expect_dropped("holds another secret");
}

std::string failure_to_connect(
    Router& router, const Endpoint& endpoint, Duration allowed, Cause cause,
    const std::function<void()>& meanwhile = [] {}) {
  ConnectOptions options;
  options.deadline = allowed;
  options.peer_name = "rank 1";
  auto connecting = router.connect(endpoint, options);
  for (auto deadline = test::soon(); !deadline.passed();) {
    meanwhile();
    try {
      if (connecting->poll()) return "connected";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), cause) << error.what();
      return error.what();
    }
    test::wait_on(*connecting);
  }
  return "no end";
}

TEST(Connecting, ToAProcessOfThisHostThatIsGoneSaysSo) {
  Router left(test::router_options("left"));
  auto right = std::make_unique<Router>(test::router_options("right"));
  const Endpoint gone = right->listen()->endpoint();
  right.reset();
  // So that nobody else listens there.
  const Descriptor held(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto there = sockets::SocketAddress::parse(gone.offers.at(0).address, gone.offers.at(0).port);
  ASSERT_EQ(::bind(held.get(), there.get(), there.length), 0);
  std::string text = failure_to_connect(left, gone, seconds(30), Cause::kRemote);
  EXPECT_NE(text.find("refused"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 on host right"), std::string::npos) << text;
}

TEST(Connecting, ToAListenerThatIsGoneSaysSo) {
  Router left(test::router_options("left")), right(test::router_options("right"));
  auto other = right.listen();
  const Endpoint gone = right.listen()->endpoint();
  std::string text = failure_to_connect(left, gone, seconds(30), Cause::kRemote,
                                        [&] { EXPECT_EQ(other->accept(), nullptr); });
  EXPECT_NE(text.find("listener is gone"), std::string::npos) << text;
}

TEST(Connecting, SucceedsWhenTheListenerSpeaksLate) {
  Router left(test::router_options("left")), right(test::router_options("right"));
  auto listener = right.listen();
  auto connecting = left.connect(listener->endpoint(), {});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(connecting->poll(), nullptr);
  std::unique_ptr<Connection> near, far;
  for (auto deadline = test::soon(); !(near && far) && !deadline.passed();) {
    if (!near) near = connecting->poll();
    if (!far) far = listener->accept();
  }
  EXPECT_TRUE(near && far);
}

/// A listening socket that answers everybody with fixed bytes.
std::string answer_with(std::span<const std::byte> bytes, Duration allowed, Cause cause) {
  std::uint16_t port = 0;
  Descriptor socket = sockets::listen_on("eth0", "127.0.0.1", port);
  Router left(test::router_options("left"));
  Endpoint endpoint;
  endpoint.host = "odd";
  endpoint.offers = {{"eth0", topology::NicKind::kTcp, 0, "127.0.0.1", port, 0, false}};
  std::vector<Descriptor> accepted;
  return failure_to_connect(left, endpoint, allowed, cause, [&] {
    Descriptor one(accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK));
    if (!one) return;
    if (!bytes.empty()) send(one.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    accepted.push_back(std::move(one));
  });
}

TEST(Connecting, ToAnotherProgramSaysSo) {
  std::string text = answer_with(std::as_bytes(std::span(std::string_view("SSH-2.0-OpenSSH_9.2p1\r\n"))),
                                 seconds(30), Cause::kRemote);
  EXPECT_NE(text.find("not Tombolo"), std::string::npos) << text;
}

TEST(Connecting, ToAnotherVersionSaysSo) {
  // As long as version 5's answer: only its first eight bytes are looked at.
  auto bytes = Challenge{}.encode();
  bytes.resize(160);
  store_little_endian(&bytes[4], std::uint16_t{5});
  store_little_endian(&bytes[6], std::uint16_t{160});
  std::string text = answer_with(bytes, seconds(30), Cause::kRemote);
  EXPECT_NE(text.find("the peer speaks protocol version 5, this build 6 and no other"), std::string::npos)
      << text;
}

TEST(Connecting, ToASilentListenerEndsAtTheDeadline) {
  std::string text = answer_with({}, milliseconds(300), Cause::kTimeout);
  EXPECT_NE(text.find("not connected within"), std::string::npos) << text;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

TEST(Descriptors, AreAllClosedAgain) {
  auto once = [] {
    TcpOptions tcp;
    tcp.streams = 4;
    Router left(test::router_options("left", tcp)), right(test::router_options("right", tcp));
    auto listener = right.listen();
    auto abandoned = left.connect(listener->endpoint(), {});
    auto pair = test::connect_pair(left, *listener);
    std::vector<std::byte> data(100'000);
    pair.first->post_send(data);
    pair.first->progress();
  };
  once();
  std::size_t before = open_descriptors();
  for (int i = 0; i < 10; ++i) once();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
