#include "transport/bootstrap/connecting_handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <span>

#include "base/randomized_test.h"
#include "transport/descriptor.h"
#include "transport/testing/control_channels.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::transport::bootstrap {
namespace {

std::shared_ptr<const Local> make_local() {
  auto local = std::make_shared<Local>();
  local->secret = Secret::from_text("the tests' secret");
  local->secret_hint = "the hint";
  return local;
}

Hello hello_for(Purpose purpose, std::uint32_t epoch) {
  Hello hello;
  hello.purpose = purpose;
  hello.epoch = epoch;
  hello.nonce.fill(std::byte{7});
  return hello;
}

/// A handshake whose accepting end is the test. Its socket takes all that either end says.
class Shaking {
 public:
  explicit Shaking(Purpose purpose = Purpose::kJoin, std::uint32_t epoch = 0) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    here_.reset(ends[0]);
    there_.reset(ends[1]);
    handshake_.emplace(local_, hello_for(purpose, epoch), ends[0], nullptr);
  }

  void say(std::span<const std::byte> bytes) {
    ASSERT_EQ(send(there_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  std::vector<std::byte> hear(std::size_t bytes) {
    std::vector<std::byte> heard(bytes);
    EXPECT_EQ(recv(there_.get(), heard.data(), bytes, 0), std::ssize(heard));
    return heard;
  }
  void hang_up() { there_.reset(); }
  /// Bytes that this end said and the handshake has not read.
  std::size_t unread() const {
    std::byte bytes[200];
    const ssize_t got = recv(here_.get(), bytes, sizeof bytes, MSG_PEEK);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }

  /// Hears the hello.
  void greeted() {
    handshake_->poll();
    hello_ = hear(Hello::kBytes);
  }
  /// Answers the hello.
  void challenge(HandshakeStatus status = HandshakeStatus::kOk) {
    Challenge challenge;
    challenge.status = status;
    challenge.nonce.fill(std::byte{9});
    challenge_ = challenge.encode();
    say(challenge_);
    handshake_->poll();
  }
  /// The answer to the proof, of one that holds the secret.
  std::vector<std::byte> reply(HandshakeStatus status) const {
    Reply reply;
    reply.status = status;
    reply.host = "there";
    reply.mac = reply_mac(local_->secret, hello_, challenge_, reply.encode());
    return reply.encode();
  }
  /// All up to the proof, which is right.
  void proved() {
    greeted();
    challenge();
    const auto proof = Proof::decode(hear(Proof::kBytes));
    EXPECT_TRUE(equal(proof.mac, proof_mac(local_->secret, hello_, challenge_)));
  }
  void replied(std::span<const std::byte> bytes) {
    say(bytes);
    handshake_->poll();
  }

  ConnectingHandshake& operator*() noexcept { return *handshake_; }
  ConnectingHandshake* operator->() noexcept { return &*handshake_; }
  std::span<const std::byte> hello() const noexcept { return hello_; }

  /// "lasting: why", or "for now: why", or nothing where it has not failed.
  std::string failure() const {
    const auto& failure = handshake_->failure();
    return failure ? (failure->lasting ? "lasting: " : "for now: ") + failure->why : "";
  }

 private:
  std::shared_ptr<const Local> local_ = make_local();
  Descriptor here_, there_;
  std::vector<std::byte> hello_, challenge_;
  std::optional<ConnectingHandshake> handshake_;  // uses here_
};

TEST(ConnectingHandshake, SucceedsWithWhoHoldsTheSecret) {
  Shaking shaking(Purpose::kRejoin, 5);
  shaking.proved();
  EXPECT_EQ(Hello::decode(shaking.hello()).epoch, 5U);
  EXPECT_FALSE(shaking->ready());
  shaking.replied(shaking.reply(HandshakeStatus::kOk));
  ASSERT_TRUE(shaking->ready()) << shaking.failure();
  EXPECT_EQ(shaking->reply().host, "there");
  EXPECT_EQ(shaking->take_tls(), nullptr);
  EXPECT_EQ(shaking->awaited_events(), 0);
}

TEST(ConnectingHandshake, TakesAnswersInWhateverPiecesTheyComeAndNoByteBehindThem) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(50); ++round) {
    Shaking shaking;
    shaking.greeted();
    Challenge challenge;
    challenge.nonce.fill(std::byte{9});
    const auto say_in_pieces = [&](std::vector<std::byte> bytes) {
      for (std::size_t at = 0; at < bytes.size();) {
        ASSERT_FALSE(shaking->ready());
        EXPECT_EQ(shaking->awaited_events(), POLLIN);
        const std::size_t piece = std::min(1 + random() % 40, bytes.size() - at);
        shaking.say(std::span(bytes).subspan(at, piece));
        shaking->poll();
        at += piece;
      }
    };
    say_in_pieces(challenge.encode());
    ASSERT_EQ(shaking.failure(), "");
    shaking.hear(Proof::kBytes);
    Reply reply;
    reply.mac = reply_mac(make_local()->secret, shaking.hello(), challenge.encode(), reply.encode());
    std::vector<std::byte> bytes = reply.encode();
    bytes.resize(bytes.size() + random() % 50);  // payload may follow at once
    const std::size_t behind = bytes.size() - Reply::kBytes;
    say_in_pieces({bytes.begin(), bytes.begin() + Reply::kBytes - 1});
    shaking.say(std::span(bytes).last(behind + 1));
    shaking->poll();
    ASSERT_TRUE(shaking->ready()) << shaking.failure();
    EXPECT_EQ(shaking.unread(), behind);
  }
}

// Only what the peer says in the handshake of a new connection is a reason to stop trying, because a
// connection that is there had a peer with equal settings.
TEST(ConnectingHandshake, WhatDiffersLastsForANewConnectionOnly) {
  const auto fails = [](std::span<const std::byte> answer, const std::string& why) {
    for (const Purpose purpose : {Purpose::kJoin, Purpose::kRejoin, Purpose::kAsk}) {
      Shaking shaking(purpose, 1);
      shaking.greeted();
      shaking.say(answer);
      shaking->poll();
      EXPECT_EQ(shaking.failure().find(purpose == Purpose::kJoin ? "lasting: " : "for now: "), 0U);
      EXPECT_NE(shaking.failure().find(why), std::string::npos) << shaking.failure();
      EXPECT_FALSE(shaking->may_be_accepted());
      shaking->poll();
      EXPECT_FALSE(shaking->ready());
    }
  };
  const std::vector<std::byte> right = Challenge{}.encode();
  auto other = right;
  other[0] ^= std::byte{1};
  fails(other, "is not Tombolo");
  const auto refused = [](HandshakeStatus status) { return Challenge{status, {}}.encode(); };
  fails(refused(HandshakeStatus::kRefused), "refused the handshake's values");
  fails(refused(HandshakeStatus::kNoCarrier), "the peer cannot use tcp");
  fails(refused(HandshakeStatus::kOtherProcess), "another process answers there");
  fails(refused(HandshakeStatus::kTlsWanted), "the peer asks for TLS, TOMBOLO_TLS is off here");
  fails(refused(HandshakeStatus::kTlsOff), "and the peer's TOMBOLO_TLS does not");
  fails(refused(static_cast<HandshakeStatus>(77)), "status 77");
}

TEST(ConnectingHandshake, SaysWhatIsGone) {
  const auto said = [](Purpose purpose, std::uint32_t epoch) {
    Shaking shaking(purpose, epoch);
    shaking.greeted();
    shaking.challenge(HandshakeStatus::kGone);
    return shaking.failure();
  };
  EXPECT_EQ(said(Purpose::kJoin, 0), "lasting: the peer's listener is gone");
  EXPECT_EQ(said(Purpose::kJoin, 1),
            "lasting: the peer's listener is gone, or has closed the connection already");
  EXPECT_EQ(said(Purpose::kRejoin, 1), "for now: the peer says that it does not know this connection");
}

TEST(ConnectingHandshake, BelievesThatAConnectionIsGoneWhereThatIsProved) {
  Shaking shaking(Purpose::kRejoin, 1);
  shaking.proved();
  shaking.replied(shaking.reply(HandshakeStatus::kGone));
  EXPECT_EQ(shaking.failure(), "lasting: the peer no longer has this connection");
}

TEST(ConnectingHandshake, ABitThatIsAlteredInTheReplyIsFoundOut) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(50); ++round) {
    Shaking shaking(Purpose::kRejoin, 1);
    shaking.proved();
    auto reply = shaking.reply(HandshakeStatus::kGone);
    const std::size_t at = random() % reply.size();
    reply[at] ^= std::byte{1} << random() % 8;
    shaking.replied(reply);
    EXPECT_FALSE(shaking->ready());
    EXPECT_EQ(shaking.failure().find("for now: "), 0U) << at << ": " << shaking.failure();
  }
}

TEST(ConnectingHandshake, OfTwoSecretsTellsWhereTheyComeFrom) {
  Shaking shaking;
  shaking.proved();
  Reply reply;
  reply.status = HandshakeStatus::kOtherSecret;
  shaking.replied(reply.encode());
  EXPECT_EQ(shaking.failure(), "lasting: the two ends hold different secrets; the hint");
}

// The next attempt needs a higher epoch then.
TEST(ConnectingHandshake, MayBeAcceptedFromTheProofOnEvenWhereItFails) {
  Shaking early;
  early.greeted();
  EXPECT_FALSE(early->may_be_accepted());
  early.hang_up();
  early->poll();
  EXPECT_EQ(early.failure(), "for now: the peer closed it during the handshake");
  EXPECT_FALSE(early->may_be_accepted());
  Shaking late;
  late.proved();
  EXPECT_TRUE(late->may_be_accepted());
  late.hang_up();
  late->poll();
  EXPECT_EQ(late.failure(), "for now: the peer closed it at the end of the handshake");
  EXPECT_TRUE(late->may_be_accepted());
}

/// A kernel whose next looks ahead find nothing: what lies there came just afterwards.
class BlindKernel final : public test::ForwardingKernel {
 public:
  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    if ((flags & MSG_PEEK) != 0 && blind != 0) {
      --blind;
      errno = error;
      return -1;
    }
    return ForwardingKernel::recv(socket, data, size, flags);
  }
  unsigned blind = 0;
  int error = EAGAIN;
};

/// A handshake that begins with TLS. The test carries what either end says to the other.
class SecureShaking {
 public:
  SecureShaking() {
    TlsOptions options;
    options.use = TlsUse::kOn;
    const auto local = std::make_shared<Local>(*make_local());
    local->tls = std::make_shared<sockets::Tls>(options, local->secret, local->secret_hint);
    std::tie(here_, wire_here_) = test::local_pair();
    std::tie(there_, wire_there_) = test::local_pair();
    handshake_.emplace(local, hello_for(Purpose::kJoin, 0), here_.get(),
                       local->tls->begin(here_.get(), true));
    peer_ = local->tls->begin(there_.get(), false);
  }

  /// Brings the first words of this end to the peer, and returns its answer.
  std::vector<std::byte> answer() {
    handshake_->poll();
    const std::vector<std::byte> words = heard(wire_here_);
    EXPECT_EQ(send(wire_there_.get(), words.data(), words.size(), MSG_NOSIGNAL), std::ssize(words));
    EXPECT_EQ(peer_->handshake(), sockets::Step::kAgain);
    return heard(wire_there_);
  }
  /// Brings `bytes` here, the first `piece` of them alone, while so many looks ahead find nothing.
  void say_in_two(std::span<const std::byte> bytes, std::size_t piece, unsigned blind, int error) {
    BlindKernel kernel;
    const KernelInPlace in_place(kernel);
    kernel.blind = blind;
    kernel.error = error;
    for (const auto part : {bytes.first(piece), bytes.subspan(piece)}) {
      EXPECT_EQ(send(wire_here_.get(), part.data(), part.size(), MSG_NOSIGNAL), std::ssize(part));
      for (int turn = 0; turn < 4; ++turn) handshake_->poll();
    }
  }
  /// Whether the peer takes this end's answer for the end of TLS's handshake.
  bool peer_is_secure() {
    const std::vector<std::byte> words = heard(wire_here_);
    EXPECT_EQ(send(wire_there_.get(), words.data(), words.size(), MSG_NOSIGNAL), std::ssize(words));
    return peer_->handshake() == sockets::Step::kDone;
  }
  std::string failure() const { return handshake_->failure() ? handshake_->failure()->why : ""; }

 private:
  static std::vector<std::byte> heard(const Descriptor& from) {
    std::vector<std::byte> bytes(16 * 1024);
    const ssize_t got = recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    EXPECT_GT(got, 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }

  Descriptor here_, wire_here_, there_, wire_there_;
  std::optional<ConnectingHandshake> handshake_;  // uses here_
  std::unique_ptr<sockets::TlsStream> peer_;      // uses there_
};

// The answer may come between the look at its first byte and the read, and in several segments. It once ended
// the join for good: the middle of it was taken for a peer without TLS.
TEST(ConnectingHandshake, TakesAnAnswerToTlsHoweverItComes) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(20); ++round) {
    SecureShaking shaking;
    const std::vector<std::byte> answer = shaking.answer();
    ASSERT_GT(answer.size(), 100U);
    const std::size_t piece = 1 + random() % (answer.size() - 1);
    const int error = round % 2 == 0 ? EAGAIN : EINTR;
    shaking.say_in_two(answer, piece, 1 + round % 3, error);
    ASSERT_EQ(shaking.failure(), "") << "first " << piece << " of " << answer.size() << " bytes, errno "
                                     << error;
    EXPECT_TRUE(shaking.peer_is_secure());
  }
}

TEST(ConnectingHandshake, KnowsAPlainAnswerToTlsHoweverItComes) {
  const std::vector<std::byte> answer = Challenge{HandshakeStatus::kTlsOff, {}}.encode();
  for (const int error : {EAGAIN, EINTR}) {
    for (std::size_t piece = 1; piece < answer.size(); ++piece) {
      SecureShaking shaking;
      shaking.answer();
      shaking.say_in_two(answer, piece, 1, error);
      EXPECT_NE(shaking.failure().find("TOMBOLO_TLS=on asks for TLS here, and the peer's"), std::string::npos)
          << "first " << piece << " bytes, errno " << error << ": " << shaking.failure();
    }
  }
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
