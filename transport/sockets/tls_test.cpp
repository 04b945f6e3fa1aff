// Encrypted streams: who gets in and who does not, what is seen on the way, and what happens to altered
// bytes.
#include "transport/sockets/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>

#include "transport/bootstrap/destination.h"
#include "transport/bootstrap/handshake.h"
#include "transport/sockets/tls_stream.h"
#include "transport/testing/altering_proxy.h"
#include "transport/testing/certificates.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::sockets {
namespace {

using std::chrono::seconds;
using test::certificates::Folder;
using test::certificates::Identity;
using test::certificates::make_identity;

TlsOptions by_secret(TlsUse use = TlsUse::kOn) {
  TlsOptions options;
  options.use = use;
  return options;
}

/// A listener named right, and whoever connects to it, named left.
class TlsHandshake : public testing::Test {
 protected:
  RouterOptions options_of(const std::string& host, const TlsOptions& tls, int streams = 1) {
    TcpOptions tcp;
    tcp.streams = streams;
    RouterOptions options = test::router_options(host, tcp, tls);
    options.log = log_.of(host);
    return options;
  }
  std::string log() { return log_.text(); }
  bool logged(std::string_view part) { return log().find(part) != std::string::npos; }

  void listen(const TlsOptions& tls) { listen(options_of("right", tls)); }
  void listen(const RouterOptions& options) {
    right_ = std::make_unique<Router>(options);
    listener_ = right_->listen();
  }
  std::string listener_name() const {
    return bootstrap::Destination{bootstrap::Purpose::kJoin, listener_->endpoint().listener, {}}
        .server_name();
  }
  /// "" where both ends have their connection; else why not.
  std::string connect(const RouterOptions& options, Cause cause = Cause::kRemote) {
    return connect(options, listener_->endpoint(), cause);
  }
  std::string connect(const RouterOptions& options, const Endpoint& to, Cause cause = Cause::kRemote) {
    near_.reset();
    far_.reset();
    left_ = std::make_unique<Router>(options);
    try {
      auto connecting = left_->connect(to, {});
      for (auto deadline = test::soon(); !(near_ && far_);) {
        if (!near_) near_ = connecting->poll();
        if (!far_) far_ = listener_->accept();
        if (deadline.passed()) return "no end: " + log();
        if (!(near_ && far_)) test::wait_on(*connecting, *listener_);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), cause) << error.what();
      // The listener's end sees it too.
      for (int i = 0; i < 10; ++i) EXPECT_EQ(listener_->accept(), nullptr);
      return error.what();
    }
    return "";
  }
  /// Messages both ways, each byte compared.
  void converse(std::size_t messages = 3, std::size_t size = 1'000'003) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < messages; ++i) {
      const auto there = test::random_data(random, size), back = test::random_data(random, size / 3);
      std::vector<std::byte> at_far(there.size()), at_near(back.size());
      Request* receives[] = {far_->post_receive(at_far), near_->post_receive(at_near)};
      Request* sends[] = {near_->post_send(there), far_->post_send(back)};
      std::size_t bytes = 0;
      ASSERT_EQ(test::finish(*far_, receives[0], bytes, near_.get()), Outcome::kDone)
          << far_->error()->what();
      ASSERT_EQ(test::finish(*near_, receives[1], bytes, far_.get()), Outcome::kDone)
          << near_->error()->what();
      ASSERT_EQ(test::finish(*near_, sends[0], bytes, far_.get()), Outcome::kDone);
      ASSERT_EQ(test::finish(*far_, sends[1], bytes, near_.get()), Outcome::kDone);
      ASSERT_TRUE(there == at_far && back == at_near) << log();
    }
  }
  Descriptor stranger() {
    auto address = SocketAddress::parse("127.0.0.1", listener_->endpoint().offers[0].port);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), address.get(), address.length), 0);
    return socket;
  }
  static void say(const Descriptor& socket, std::string_view text) {
    ASSERT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  void serve_until(const std::function<bool()>& done) {
    for (auto deadline = test::soon(); !done();) {
      ASSERT_EQ(listener_->accept(), nullptr);
      ASSERT_FALSE(deadline.passed()) << log();
      test::wait_on(*listener_);
    }
  }

  test::LogBook log_;
  std::unique_ptr<Router> left_, right_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Connection> near_, far_;
};

void expect_in(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(TlsHandshake, BySecretSaysSoInRouteAndMeters) {
  listen(by_secret());
  ASSERT_EQ(connect(options_of("left", by_secret(), 3)), "");
  converse();
  for (const Connection* end : {near_.get(), far_.get()}) {
    EXPECT_EQ(end->route().transport, "tcp+tls");
    expect_in(end->route().reason, "TLS 1.3 by the shared secret");
  }
  expect_in(far_->route().reason, "TLS_");
  const auto reading = Meters::of_process()->read();
  EXPECT_GE(std::ranges::count_if(reading.connections,
                                  [](const auto& one) { return one.subject.route.transport == "tcp+tls"; }),
            2);
}

TEST_F(TlsHandshake, BetweenClustersEncryptsOnlyThere) {
  RouterOptions right = options_of("right", by_secret(TlsUse::kBetweenClusters));
  right.host.cluster = "east";
  listen(right);
  RouterOptions left = options_of("left", by_secret(TlsUse::kBetweenClusters));
  left.host.cluster = "east";
  ASSERT_EQ(connect(left), "");
  EXPECT_EQ(near_->route().transport, "tcp");
  EXPECT_EQ(far_->route().transport, "tcp");
  left.host.cluster = "west";
  ASSERT_EQ(connect(left), "");
  EXPECT_EQ(near_->route().transport, "tcp+tls");
  EXPECT_EQ(far_->route().transport, "tcp+tls");
  expect_in(near_->route().reason, "TOMBOLO_TLS=between-clusters");
  converse(1);
}

// In a process of its own, because the warning comes once per process.
TEST(TlsBetweenClusters, WithoutAClusterNameSaysOnceThatNothingIsEncrypted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto routers = [] {
    test::LogBook log;
    RouterOptions options = test::router_options("here", {}, by_secret(TlsUse::kBetweenClusters));
    const Router silent(options);
    options.log = log.of("here");
    options.host.cluster = "east";
    const Router named(options);
    const std::size_t too_early = log.count("has no name");
    options.host.cluster.clear();
    const Router first(options), second(options);
    std::fputs(log.text().c_str(), stderr);
    std::_Exit(too_early == 0 && log.count("the cluster of host here has no name") == 1 ? 0 : 1);
  };
  EXPECT_EXIT(routers(), testing::ExitedWithCode(0), "TOMBOLO_CLUSTER, or set TOMBOLO_TLS=on");
}

TEST_F(TlsHandshake, WhereItIsOffAtTheListenerBothEndsSaySo) {
  listen(by_secret(TlsUse::kOff));
  const std::string text = connect(options_of("left", by_secret()));
  expect_in(text,
            "TOMBOLO_TLS=on asks for TLS here, and the peer's TOMBOLO_TLS does not: set it to the same");
  expect_in(log(), "right: dropped a connection");
  expect_in(log(), "it asks for TLS, TOMBOLO_TLS is off here: set it to the same on every rank");
}

TEST_F(TlsHandshake, WhereItIsOffAtTheConnectingEndBothEndsSaySo) {
  listen(by_secret());
  const std::string text = connect(options_of("left", by_secret(TlsUse::kOff)));
  expect_in(text, "the peer asks for TLS, TOMBOLO_TLS is off here: set it to the same on every rank");
  expect_in(log(), "it comes without TLS (by tcp), TOMBOLO_TLS is on here");
}

TEST_F(TlsHandshake, InsideAClusterOnAndBetweenClustersDoNotAgree) {
  listen(by_secret(TlsUse::kBetweenClusters));
  expect_in(connect(options_of("left", by_secret())), "the peer's TOMBOLO_TLS does not");
  expect_in(log(), "TOMBOLO_TLS is between-clusters here");
}

TEST_F(TlsHandshake, AWrongSecretIsNamedAtBothEnds) {
  listen(by_secret());
  RouterOptions left = options_of("left", by_secret());
  left.secret = Secret::from_text("another");
  expect_in(connect(left), "the two ends hold different secrets");
  expect_in(log(), "it holds another secret");
  EXPECT_EQ(connect(options_of("left", by_secret())), "");
}

TEST_F(TlsHandshake, PlainGarbageAndTlsGarbageAreDroppedAndDisturbNobody) {
  listen(by_secret());
  auto plain = stranger();
  say(plain, "GET / HTTP/1.1\r\n\r\n");
  serve_until([&] { return logged("no Tombolo handshake"); });
  auto tls = stranger();
  std::string record("\x16\x03\x01\x00\x40", 5);
  say(tls, record + std::string(64, 'x'));
  serve_until([&] { return logged("TLS handshake: "); });
  auto silent = stranger();
  say(silent, "\x16");
  EXPECT_EQ(connect(options_of("left", by_secret())), "");
  converse(1);
}

// As builds before protocol version 6 begin it.
TEST_F(TlsHandshake, WithoutAServerNameIsAnotherVersion) {
  listen(by_secret());
  const auto socket = stranger();
  const auto secret = Secret::from_text("the tests' secret");
  const auto stream = std::make_shared<Tls>(by_secret(), secret, "")->begin(socket.get(), true);
  EXPECT_EQ(stream->handshake(), Step::kAgain);
  serve_until([&] { return logged("it begins TLS without naming a listener or connection"); });
  std::vector<std::byte> answer(bootstrap::Challenge::kBytes);
  ASSERT_EQ(recv(socket.get(), answer.data(), answer.size(), MSG_WAITALL), std::ssize(answer));
  const auto preamble = bootstrap::Preamble::decode(std::span(answer).first<bootstrap::Preamble::kBytes>());
  ASSERT_TRUE(preamble);
  EXPECT_EQ(preamble->version, bootstrap::kProtocolVersion) << "an older build names this one";
  EXPECT_EQ(bootstrap::Challenge::decode(answer).status, bootstrap::HandshakeStatus::kOtherVersion);
}

TEST_F(TlsHandshake, NothingThatIsSaidIsReadOnTheWay) {
  for (const bool encrypted : {false, true}) {
    SCOPED_TRACE(encrypted);
    RouterOptions right = options_of("righthost", by_secret(encrypted ? TlsUse::kOn : TlsUse::kOff));
    RouterOptions left = options_of("lefthost", by_secret(encrypted ? TlsUse::kOn : TlsUse::kOff));
    listen(right);
    std::mutex lock;
    std::string seen[2];
    test::AlteringProxy proxy(listener_->endpoint().offers[0].port,
                              [&](std::size_t, bool forward, std::uint64_t, std::span<std::byte> bytes) {
                                const std::lock_guard guard(lock);
                                seen[forward].append(reinterpret_cast<const char*>(bytes.data()),
                                                     bytes.size());
                              });
    ASSERT_EQ(connect(left, proxy.in_front_of(listener_->endpoint())), "");
    const std::string_view words = "the weights of the model";
    std::vector<std::byte> buffer(words.size());
    Request* receive = far_->post_receive(buffer);
    Request* send = near_->post_send(std::as_bytes(std::span(words)));
    std::size_t bytes = 0;
    ASSERT_EQ(test::finish(*far_, receive, bytes, near_.get()), Outcome::kDone);
    ASSERT_EQ(test::finish(*near_, send, bytes, far_.get()), Outcome::kDone);
    near_.reset();
    far_.reset();
    const std::lock_guard guard(lock);
    for (const std::string_view part : {"TMBO", "lefthost", "eth0", words.data()})
      EXPECT_EQ(seen[1].find(part) == std::string::npos, encrypted) << part;
    for (const std::string_view part : {"TMBO", "righthost"})
      EXPECT_EQ(seen[0].find(part) == std::string::npos, encrypted) << part;
  }
}

TEST_F(TlsHandshake, AlteredCiphertextBreaksTheStreamAndEveryByteIsRight) {
  listen(by_secret());
  // The first streams break: in the TLS handshake, in our own, in the first chunk, and later.
  // Counted from the end of the ClientHello: an altered one looks like one by another secret.
  constexpr std::uint64_t kAt[] = {30, 150, 3000, 40'000, 900'000};
  std::uint64_t begin = 0;
  test::AlteringProxy proxy(listener_->endpoint().offers[0].port, [&](std::size_t stream, bool forward,
                                                                      std::uint64_t offset,
                                                                      std::span<std::byte> bytes) {
    if (!forward || stream >= std::size(kAt)) return;
    if (offset == 0)
      begin = 5 + 256 * std::to_integer<std::uint64_t>(bytes[3]) + std::to_integer<std::uint64_t>(bytes[4]);
    test::flip_bit(begin + kAt[stream], offset, bytes);
  });
  ASSERT_EQ(connect(options_of("left", by_secret()), proxy.in_front_of(listener_->endpoint())), "") << log();
  converse(6);
  EXPECT_GE(proxy.streams(), std::size(kAt) + 1);
  EXPECT_GE(far_->statistics().breaks, 3u) << log();
  expect_in(log(), "right: tcp+tls connection");
  expect_in(log(), "read a TLS record: ");
  expect_in(log(), "altered on its way");
}

/// With an authority of its own, and two ranks that it signed.
class TlsCertificates : public TlsHandshake {
 protected:
  Folder folder_;
  Identity authority_ = make_identity("authority", nullptr);
  Identity other_authority_ = make_identity("another authority", nullptr);
  Identity rank_ = make_identity("rank 0", &authority_);

  TlsOptions good(const std::string& rank) { return folder_.options(rank, rank_, authority_); }
  std::string refusal(const TlsOptions& tls) {
    try {
      Router router(options_of("left", tls));
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(TlsCertificates, ThatTheAuthoritySignedAreAccepted) {
  listen(good("right"));
  ASSERT_EQ(connect(options_of("left", good("left"), 2)), "");
  converse();
  expect_in(near_->route().reason, "TLS 1.3 by certificates");
}

TEST_F(TlsCertificates, OfAnotherAuthorityAreRefusedAtBothEnds) {
  listen(good("right"));
  const Identity stranger = make_identity("stranger", &other_authority_);
  // Its own file is in order; it does not trust the listener, nor the listener it.
  expect_in(connect(options_of("left", folder_.options("left", stranger, other_authority_))),
            "the peer's certificate is not accepted");
  expect_in(log(), "right: dropped a connection");
  // One that trusts the listener's authority too: then it is the listener that refuses.
  TlsOptions both = folder_.options("left", stranger, other_authority_);
  std::unique_ptr<std::FILE, test::certificates::Free> file(std::fopen(both.authority.c_str(), "a"));
  PEM_write_X509(file.get(), authority_.certificate.get());
  file.reset();
  expect_in(connect(options_of("left", both)), "the peer does not know the authority that signed this end's");
  expect_in(log(), "the peer's certificate is not accepted: ");
}

TEST_F(TlsCertificates, AndSecretsDoNotMix) {
  listen(good("right"));
  expect_in(connect(options_of("left", by_secret())),
            "use certificates (TOMBOLO_TLS_CERTIFICATE) on every rank");
  listen(by_secret());
  expect_in(connect(options_of("left", good("left"))),
            "use certificates (TOMBOLO_TLS_CERTIFICATE) on every rank");
}

TEST_F(TlsCertificates, DoNotReplaceTheSecret) {
  listen(good("right"));
  RouterOptions left = options_of("left", good("left"));
  left.secret = Secret::from_text("another");
  expect_in(connect(left), "the two ends hold different secrets");
}

TEST_F(TlsCertificates, ThatHaveExpiredAreRefusedByThePeer) {
  listen(good("right"));
  // A router would not even start with it, so this peer is made by hand.
  const Identity expired = make_identity("late", &authority_, -60);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_use_certificate(context, expired.certificate.get());
  SSL_CTX_use_PrivateKey(context, expired.key.get());
  auto socket = stranger();
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, socket.get());
  SSL_set_tlsext_host_name(ssl, listener_name().c_str());
  std::thread connecting([&] {
    if (SSL_connect(ssl) == 1) {
      char byte = 0;
      EXPECT_LE(SSL_read(ssl, &byte, 1), 0);
    }
  });
  serve_until([&] { return logged("certificate has expired"); });
  connecting.join();
  SSL_free(ssl);
  SSL_CTX_free(context);
  expect_in(log(), "the peer's certificate is not accepted: certificate has expired");
}

TEST_F(TlsCertificates, FilesThatAreNotInOrderAreNamed) {
  TlsOptions tls = good("left");
  tls.key = folder_.path("missing.key");
  std::string text = refusal(tls);
  expect_in(text, "TOMBOLO_TLS_KEY='" + tls.key + "'");
  expect_in(text, "No such file");

  tls = good("left");
  tls.authority.clear();
  expect_in(refusal(tls), "TOMBOLO_TLS_AUTHORITY is not set");

  tls = good("left");
  tls.certificate = tls.key;
  expect_in(refusal(tls), "TOMBOLO_TLS_CERTIFICATE='" + tls.key + "': no PEM certificate");

  tls = good("left");
  tls.key = tls.certificate;
  expect_in(refusal(tls), "TOMBOLO_TLS_KEY='" + tls.key + "': no PEM private key");

  tls = good("left");
  tls.key = folder_.write("other.key", make_identity("x", &authority_).key);
  expect_in(refusal(tls), "TOMBOLO_TLS_KEY='" + tls.key + "': the key does not belong to the certificate");

  tls = folder_.options("late", make_identity("late", &authority_, -60), authority_);
  expect_in(refusal(tls), "TOMBOLO_TLS_CERTIFICATE='" + tls.certificate + "': the certificate has expired");

  tls = folder_.options("left", rank_, other_authority_);
  expect_in(refusal(tls), "is not signed by the authority in TOMBOLO_TLS_AUTHORITY='" + tls.authority);
}

// Who sits in between with a certificate of the authority, but without the secret, ends two TLS sessions; the
// MACs of our own handshake, which he can only pass on, do not fit both.
TEST_F(TlsCertificates, DoNotHelpWhoSitsInBetween) {
  listen(good("right"));
  std::uint16_t port = 0;
  Descriptor door = listen_on("lo", "127.0.0.1", port);
  const auto tls = std::make_shared<Tls>(good("between"), Secret{}, "");
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> passed{0};
  const std::string name = listener_name();
  std::thread between([&] {
    Descriptor sockets[2];
    std::unique_ptr<TlsStream> sessions[2];
    bool open = false;
    while (!stop) {
      usleep(200);
      if (!sockets[0]) {
        sockets[0] = Descriptor(accept4(door.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!sockets[0]) continue;
        sockets[1] = start_connect("lo", "127.0.0.1",
                                   SocketAddress::parse("127.0.0.1", listener_->endpoint().offers[0].port));
        pollfd connected{sockets[1].get(), POLLOUT, 0};
        ::poll(&connected, 1, 1000);
        sessions[0] = tls->begin(sockets[0].get(), false);
        sessions[1] = tls->begin(sockets[1].get(), true, name);
      }
      if (!open) {
        const Step near = sessions[0]->handshake(), far = sessions[1]->handshake();
        open = near == Step::kDone && far == Step::kDone;
        continue;
      }
      std::array<std::byte, 1000> bytes;
      for (int from = 0; from < 2; ++from) {
        iovec part{bytes.data(), bytes.size()};
        const ssize_t got = sessions[from]->read({&part, 1});
        if (got <= 0) continue;
        part.iov_len = static_cast<std::size_t>(got);
        passed += part.iov_len;
        sessions[1 - from]->write({&part, 1});
      }
    }
  });
  Endpoint through = listener_->endpoint();
  through.offers[0].port = port;
  const std::string text = connect(options_of("left", good("left")), through);
  stop = true;
  between.join();
  expect_in(text, "the two ends hold different secrets");
  EXPECT_GE(passed, bootstrap::Hello::kBytes + bootstrap::Challenge::kBytes + bootstrap::Proof::kBytes);
}

}  // namespace
}  // namespace tombolo::transport::sockets
