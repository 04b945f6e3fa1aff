// The client against servers that do not behave; store_test.cpp has it against one that does.
#include "collectives/rendezvous/store_client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/unused_port_test.h"

namespace tombolo::collectives::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::Secret;

const Secret kSecret = Secret::from_text("open sesame");
constexpr auto kPatience = seconds(60);

/// A socket whose other end is a client; blocks.
class Peer {
 public:
  explicit Peer(int socket) : socket_(socket) {}
  ~Peer() { ::close(socket_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void say(std::span<const std::byte> bytes) const {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// Fills the bytes; false at the client's end.
  bool hear(std::span<std::byte> bytes) const {
    return ::recv(socket_, bytes.data(), bytes.size(), MSG_WAITALL) == static_cast<ssize_t>(bytes.size());
  }
  /// The handshake of a real server.
  void welcome() const {
    const Nonce nonce = random_nonce();
    say(make_hello(nonce));
    std::array<std::byte, kProofBytes> proof{};
    ASSERT_TRUE(hear(proof));
    Nonce client{};
    ASSERT_TRUE(check_proof(kSecret, nonce, proof, client));
    say(make_verdict(kSecret, nonce, client, StoreId{}));
  }
  /// The number of the next request.
  std::uint32_t request() const {
    std::array<std::byte, kLengthBytes> length{};
    EXPECT_TRUE(hear(length));
    std::vector<std::byte> body(read_length(length));
    EXPECT_TRUE(hear(body));
    return parse(body).request;
  }
  void wait_for_the_end() const {
    std::byte byte{};
    while (hear({&byte, 1})) {
    }
  }

 private:
  int socket_;
};

/// Hands each client that connects to the next of these.
class Server {
 public:
  using Serve = std::function<void(const Peer&)>;
  explicit Server(std::vector<Serve> serves) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, all = std::move(serves)] {
      for (const Serve& serve : all) serve(Peer(::accept(listener_, nullptr, nullptr)));
    });
  }
  ~Server() {
    thread_.join();
    ::close(listener_);
  }
  int port() const noexcept { return port_; }

 private:
  int listener_, port_ = 0;
  std::thread thread_;
};

std::unique_ptr<Store> connect(int port, Duration patience = kPatience) {
  return Store::connect("127.0.0.1", port, kSecret, Deadline::after(patience), Log());
}

template <typename Action>
std::string error_of(Cause cause, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), cause) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void expect_in(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

TEST(StoreClient, TriesAgainWhereAServerEndsBeforeItsHello) {
  const auto at_once = [](const Peer&) {};
  const auto in_the_middle = [](const Peer& peer) {
    const auto hello = make_hello(random_nonce());
    peer.say(std::span(hello).first(10));
  };
  Server server({at_once, in_the_middle, [](const Peer& peer) {
                   peer.welcome();
                   const auto answer = encode(Kind::kAbsent, peer.request(), {}, {});
                   peer.say(answer);
                 }});
  EXPECT_FALSE(connect(server.port())->try_get("key"));
}

TEST(StoreClient, NamesAServerOfAnotherKindAtOnce) {
  Server server({[](const Peer& peer) {
    peer.say(std::as_bytes(std::span(std::string_view("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n"))));
    peer.wait_for_the_end();
  }});
  expect_in(error_of(Cause::kRemote, [&] { connect(server.port()); }),
            fmt::format("the store at 127.0.0.1:{}: what answers is not a Tombolo store", server.port()));
}

TEST(StoreClient, NamesAServerThatDoesNotKnowTheSecretItself) {
  Server server({[](const Peer& peer) {
    const Nonce nonce = random_nonce();
    peer.say(make_hello(nonce));
    std::array<std::byte, kProofBytes> proof{};
    ASSERT_TRUE(peer.hear(proof));
    Nonce client{};
    std::copy_n(proof.begin() + 4, kNonceBytes, client.begin());
    peer.say(make_verdict(Secret::from_text("another"), nonce, client, StoreId{}));
    peer.wait_for_the_end();
  }});
  expect_in(error_of(Cause::kRemote, [&] { connect(server.port()); }), "does not know the secret itself");
}

TEST(StoreClient, FailsAtOnceWhereAStoreWasAndNobodyListensAnyMore) {
  const int port = unused_port();
  { const StoreServer gone("127.0.0.1", port, kSecret, Log()); }
  const auto access = store_at("127.0.0.1", port, kSecret);
  expect_in(error_of(Cause::kRemote, [&] { access->reconnect(Deadline::after(kPatience), Log()); }),
            fmt::format("the store at 127.0.0.1:{} is gone: Connection refused", port));
  StoreServer again("127.0.0.1", port, kSecret, Log());
  EXPECT_FALSE(access->reconnect(Deadline::after(kPatience), Log())->try_get("key"));
}

// A job that was started again has one at the same address, with the same secret.
TEST(StoreClient, SetsNothingInAnotherStoreAtTheAddressOfItsOwn) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kSecret, Log());
  const int port = server->port();
  const auto known = store_at("127.0.0.1", port, kSecret, server->id());
  const auto met = store_at("127.0.0.1", port, kSecret), unmet = store_at("127.0.0.1", port, kSecret);
  const auto soon = [] { return Deadline::after(kPatience); };
  met->connect(soon(), Log())->set("key", {});
  server.reset();
  server = std::make_unique<StoreServer>("127.0.0.1", port, kSecret, Log());
  for (const auto& access : {known, met}) {
    for (const std::function<void()>& way : std::initializer_list<std::function<void()>>{
             [&] { access->connect(soon(), Log()); }, [&] { access->reconnect(soon(), Log()); },
             [&] { access->watch("abort", "present/0", soon()); }})
      expect_in(error_of(Cause::kRemote, way), "another store listens there now");
  }
  EXPECT_FALSE(unmet->reconnect(soon(), Log())->try_get("present/0"));
}

TEST(StoreClient, DoesNotWaitForASilentServerBeyondItsDeadline) {
  Server server({[](const Peer& peer) { peer.wait_for_the_end(); }});
  expect_in(error_of(Cause::kTimeout, [&] { connect(server.port(), milliseconds(100)); }),
            "did not send its hello within");
}

TEST(StoreClient, ReadsAnAnswerThatComesByteForByte) {
  Server server({[](const Peer& peer) {
    peer.welcome();
    const auto answer = encode(Kind::kValue, peer.request(), {}, std::vector<std::byte>(300, std::byte{7}));
    for (const std::byte byte : answer) peer.say({&byte, 1});
  }});
  EXPECT_EQ(connect(server.port())->get("key", Deadline::after(kPatience)),
            std::vector<std::byte>(300, std::byte{7}));
}

TEST(StoreClient, SkipsAnswersToOtherRequests) {
  Server server({[](const Peer& peer) {
    peer.welcome();
    const std::uint32_t request = peer.request();
    peer.say(encode(Kind::kValue, request + 1000, {}, std::vector<std::byte>(3)));
    peer.say(encode(Kind::kRefused, request - 1, {}, {}));
    peer.say(encode(Kind::kAbsent, request, {}, {}));
  }});
  EXPECT_FALSE(connect(server.port())->try_get("key"));
}

TEST(StoreClient, AnAnswerOfAnotherSizeThanACounterIsNamed) {
  Server server({[](const Peer& peer) {
    peer.welcome();
    peer.say(encode(Kind::kValue, peer.request(), {}, std::vector<std::byte>(7)));
  }});
  const auto client = connect(server.port());
  expect_in(error_of(Cause::kRemote, [&] { client->add("count", 1); }), "an answer of 7 bytes to adding");
}

TEST(StoreClient, FramesThatMakeNoSenseEndTheConnection) {
  for (const std::uint32_t length : {std::uint32_t{0}, std::uint32_t{kHeaderBytes - 1},
                                     static_cast<std::uint32_t>(kMaxFrame + 1), UINT32_MAX}) {
    Server server({[length](const Peer& peer) {
      peer.welcome();
      peer.request();
      auto frame = encode(Kind::kValue, 1, {}, {});
      for (std::size_t i = 0; i < kLengthBytes; ++i) frame[i] = static_cast<std::byte>(length >> 8 * i);
      peer.say(frame);
      peer.wait_for_the_end();
    }});
    expect_in(error_of(Cause::kRemote, [&] { connect(server.port())->try_get("key"); }),
              "a frame of an absurd length");
  }
}

TEST(StoreClient, AServerThatTakesNothingIsGivenUpAfterTheDeadline) {
  std::atomic<bool> over{false};
  Server server({[&](const Peer& peer) {
    peer.welcome();
    // It reads nothing; the client's socket and this one's fill up.
    while (!over) std::this_thread::yield();
  }});
  {
    FakeClock standing;  // the patience is that of the requests
    const auto client = Store::connect("127.0.0.1", server.port(), kSecret,
                                       Deadline::after(milliseconds(200), standing), Log());
    const std::vector<std::byte> value(kMaxValue);
    expect_in(error_of(Cause::kTimeout, [&] { client->set("large", value); }), "took nothing for");
  }
  over = true;
}

TEST(StoreWatch, TellsAServerThatDiesFromOneThatCloses) {
  for (const bool on_purpose : {true, false}) {
    Server server({[&](const Peer& peer) {
      peer.welcome();
      peer.request();
      if (on_purpose) peer.say(encode(Kind::kServerClosing, 0, {}, {}));
    }});
    const auto watch =
        store_at("127.0.0.1", server.port(), kSecret)->watch("abort", "", Deadline::after(kPatience));
    for (const auto deadline = Deadline::after(kPatience); watch->check() == StoreWatch::News::kNone;) {
      ASSERT_FALSE(deadline.passed());
      std::this_thread::yield();
    }
    EXPECT_EQ(watch->check(), on_purpose ? StoreWatch::News::kStoreLeft : StoreWatch::News::kStoreLost);
    EXPECT_EQ(watch->descriptor(), -1) << "there is nothing to wait for any more";
  }
}

TEST(StoreWatch, APresenceThatIsRefusedOrNotAnsweredIsAnError) {
  for (const bool refused : {true, false}) {
    std::atomic<bool> over{false};
    Server server({[&](const Peer& peer) {
      peer.welcome();
      peer.request();
      const std::string why = "the store is full";
      if (refused) peer.say(encode(Kind::kRefused, 1, {}, std::as_bytes(std::span(why))));
      while (!over) std::this_thread::yield();
    }});
    const auto watch = [&] {
      store_at("127.0.0.1", server.port(), kSecret)
          ->watch("abort", "present/1", Deadline::after(seconds(refused ? 60 : 1)));
    };
    if (refused)
      expect_in(error_of(Cause::kRemote, watch), "key 'present/1': the store is full");
    else
      expect_in(error_of(Cause::kTimeout, watch), "did not set 'present/1' within 1 s");
    over = true;
  }
}

}  // namespace
}  // namespace tombolo::collectives::store
