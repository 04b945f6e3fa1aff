#include "transport/shm/connection_set_up.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/error.h"
#include "transport/testing/control_channels.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/socket_pair.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::shm {
namespace {

using Kind = SetUpMessage::Kind;

/// A process that does nothing, with a copy of this one's memory and files; of another user, where one is
/// given.
class OtherProcess {
 public:
  explicit OtherProcess(uid_t user = 0) : id_(::fork()) {
    if (id_ != 0) return;
    if (user != 0 && ::setresuid(user, user, user) == 0) ::prctl(PR_SET_DUMPABLE, 1);
    for (;;) ::pause();
  }
  ~OtherProcess() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  std::uint64_t id() const { return static_cast<std::uint64_t>(id_); }

 private:
  pid_t id_;
};

/// One end, and a peer that this test plays by hand.
class ShmSetUp : public testing::Test {
 protected:
  std::unique_ptr<ConnectionSetUp> begin(bool connecting, bool fetch = true, bool tcp = false) {
    auto [near, far] = tcp ? test::tcp_pair() : test::local_pair();
    EXPECT_EQ(::fcntl(near.get(), F_SETFL, O_NONBLOCK), 0);
    socket_ = std::move(far);
    log_ = std::make_unique<test::LogBook>();
    return std::make_unique<ConnectionSetUp>(
        test::control_channel(std::move(near), connecting, Clock::steady(), log_->of("here")),
        fetch ? Fetch::kWhereCheaper : Fetch::kNever);
  }
  void say(const SetUpMessage& message) {
    const auto bytes = message.encode();
    ASSERT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  SetUpMessage heard() {
    std::vector<std::byte> bytes(SetUpMessage::kBytes);
    EXPECT_EQ(recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL),
              static_cast<ssize_t>(bytes.size()));
    return SetUpMessage::decode(bytes);
  }
  SetUpMessage of(Kind kind) const {
    SetUpMessage message;
    message.kind = kind;
    message.process = static_cast<std::uint64_t>(::getpid());
    message.witness = reinterpret_cast<std::uint64_t>(&kept_);
    message.nonce = kNonce;
    return message;
  }
  /// A good offer of this process.
  SetUpMessage offer() {
    segment_ = Mapping::create(file_);
    SetUpMessage message = of(Kind::kOffer);
    message.descriptor = static_cast<std::uint32_t>(file_.get());
    return message;
  }
  static SetUpMessage proof(bool can_fetch) {
    SetUpMessage message;
    message.kind = Kind::kProved;
    message.can_fetch = can_fetch;
    return message;
  }
  /// What the tested end says that it gives up; empty where it does not. Both ends are to learn the same.
  std::string why_given_up(ConnectionSetUp& tested) {
    try {
      for (auto deadline = test::soon(); !deadline.passed();) {
        if (tested.poll()) return {};
        pollfd handle{socket_.get(), POLLIN, 0};
        if (::poll(&handle, 1, 0) == 1) return {};
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kUnsupported) << error.what();
      const SetUpMessage told = heard();
      EXPECT_EQ(told.kind, Kind::kRefusal);
      EXPECT_FALSE(told.reason.empty());
      EXPECT_NE(std::string(error.what()).find(told.reason), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no end within the deadline";
    return {};
  }
  /// Takes an accepting end up to where this peer proves itself.
  std::unique_ptr<ConnectionSetUp> answered(const SetUpMessage& message, bool fetch = true,
                                            bool tcp = false) {
    auto right = begin(false, fetch, tcp);
    say(message);
    EXPECT_EQ(why_given_up(*right), "");
    const SetUpMessage answer = heard();
    EXPECT_EQ(answer.kind, Kind::kAnswer);
    their_witness_ = answer.witness;
    kept_ = segment_->nonce = answer.nonce;
    return right;
  }
  bool they_keep_ours() const { return *reinterpret_cast<const Nonce*>(their_witness_) == kNonce; }

  static constexpr Nonce kNonce{std::byte{7}, std::byte{8}, std::byte{9}};
  Nonce kept_{};
  std::uint64_t their_witness_ = 0;
  Descriptor socket_, file_;
  Mapping segment_;
  std::unique_ptr<test::LogBook> log_;
};

TEST_F(ShmSetUp, TheAcceptingEndKeepsTheNonceMapsTheSegmentAndReads) {
  auto right = answered(offer());
  EXPECT_TRUE(they_keep_ours()) << "which the peer may try";
  say(proof(true));
  EXPECT_NE(right->poll(), nullptr);
  const SetUpMessage proved = heard();
  EXPECT_EQ(proved.kind, Kind::kProved);
  EXPECT_TRUE(proved.can_fetch);
  EXPECT_EQ(log_->count("(one copy)"), 1u) << log_->text();
}

TEST_F(ShmSetUp, MemoryIsReadOnlyWhereBothEndsCan) {
  for (const bool mine : {false, true}) {
    for (const bool theirs : {false, true}) {
      auto right = answered(offer(), mine);
      say(proof(theirs));
      EXPECT_NE(right->poll(), nullptr);
      EXPECT_EQ(heard().can_fetch, mine);
      EXPECT_EQ(log_->count("(one copy)"), mine && theirs ? 1u : 0u) << log_->text();
    }
  }
}

TEST_F(ShmSetUp, AnotherProcessThanTheOneThatOwnsTheChannelIsRefused) {
  const OtherProcess other;
  for (const bool connecting : {false, true}) {
    auto tested = begin(connecting);
    if (connecting) {
      EXPECT_EQ(tested->poll(), nullptr);
      EXPECT_EQ(heard().kind, Kind::kOffer);
    }
    SetUpMessage message = connecting ? of(Kind::kAnswer) : offer();
    message.process = other.id();
    say(message);
    test::expect_in(why_given_up(*tested), "its end of the control channel belongs to process");
  }
}

// Over TCP the kernel does not say whose the other end is.
TEST_F(ShmSetUp, AProcessWhoseMemoryHoldsNoNonceOfThisEndIsRefused) {
  // What a peer could know of another process's memory beforehand: all of it.
  kept_ = kNonce;
  SetUpMessage message = offer();
  const OtherProcess other;
  message.process = other.id();
  {
    auto right = answered(message, true, true);
    // The segment is taken from the other process, which has the file open too.
    say(proof(true));
    test::expect_in(why_given_up(*right), "that process's memory does not hold what this end gave");
  }
  auto left = begin(true, true, true);
  EXPECT_EQ(why_given_up(*left), "");
  EXPECT_EQ(heard().kind, Kind::kOffer);
  message = of(Kind::kAnswer);
  message.process = other.id();
  say(message);
  test::expect_in(why_given_up(*left), "that process's memory does not hold what this end gave");
}

TEST_F(ShmSetUp, ANonceThatIsNotWhereThePeerSaysIsRefused) {
  for (const bool gone : {false, true}) {
    SetUpMessage message = offer();
    if (gone) message.witness = 16;  // nothing is mapped there
    auto right = answered(message);
    if (!gone) kept_[3] ^= std::byte{1};
    say(proof(true));
    test::expect_in(why_given_up(*right), "does not hold what this end gave the peer");
  }
}

// Both ends of a process that goes and those of another process are not where the peer says.
TEST_F(ShmSetUp, APeerThatGoesAwayMeanwhileIsToldFromAnotherProcess) {
  const auto expect_remote = [&](ConnectionSetUp& tested) {
    EXPECT_EQ(tested.poll(), nullptr) << "it may be the peer, and go";
    std::vector<pollfd> handles;
    tested.append_wait_handles(handles);
    EXPECT_EQ(::poll(handles.data(), static_cast<nfds_t>(handles.size()), 10'000), 1) << "a timer runs";
    socket_ = Descriptor();
    try {
      tested.poll();
      ADD_FAILURE() << "it went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote) << error.what();
      test::expect_in(error.what(), "the peer closed the control channel");
    }
  };
  {
    auto right = answered(offer());
    kept_ = {};
    say(proof(true));
    expect_remote(*right);
  }
  {
    auto right = answered(offer());
    file_ = Descriptor();
    say(proof(true));
    expect_remote(*right);
  }
  auto right = begin(false, true, true);
  SetUpMessage message = offer();
  message.process = 0x7fff'fff0;
  say(message);
  expect_remote(*right);
}

TEST_F(ShmSetUp, APeerThatSaysWhyItGoesIsBelieved) {
  auto right = answered(offer());
  kept_ = {};
  say(proof(true));
  say(SetUpMessage::refusal("I may not"));
  try {
    right->poll();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported) << error.what();
    test::expect_in(error.what(), "the peer says: I may not");
  }
}

TEST_F(ShmSetUp, EndsTheChannelBeforeItTakesAwayWhatThePeerLooksAt) {
  class Ending final : public test::ForwardingKernel {
   public:
    explicit Ending(const std::function<void()>& shuts) : shuts_(shuts) {}
    int shutdown(int socket, int how) noexcept override {
      shuts_();
      return ForwardingKernel::shutdown(socket, how);
    }

   private:
    const std::function<void()>& shuts_;
  };
  int shuts = 0;
  const std::function<void()> look = [&] {
    ++shuts;
    EXPECT_TRUE(they_keep_ours());
  };
  Ending kernel(look);
  const KernelInPlace in_place(kernel);
  for (const bool proved : {false, true}) {
    auto right = answered(offer());
    if (proved) {
      file_ = Descriptor();
      say(proof(true));
      EXPECT_EQ(right->poll(), nullptr);
    }
    shuts = 0;
    right.reset();
    EXPECT_EQ(shuts, 1);
  }
}

TEST_F(ShmSetUp, AProcessThatIsNotThereOrOfAnotherUserIsRefused) {
  SetUpMessage message = offer();
  for (const std::uint64_t process : {std::uint64_t{0}, std::uint64_t{0x7fff'fff0}, std::uint64_t{1} << 40}) {
    auto right = begin(false, true, true);
    message.process = process;
    say(message);
    test::expect_in(why_given_up(*right), "which this process does not see");
  }
  if (::geteuid() != 0) return;  // another user's process takes root to make
  constexpr uid_t kUser = 65534;
  const OtherProcess other(kUser);
  // It has become that user's once /proc says so.
  struct stat status {};
  for (auto deadline = test::soon(); !deadline.passed() && status.st_uid != kUser;)
    ASSERT_EQ(::stat(fmt::format("/proc/{}", other.id()).c_str(), &status), 0);
  auto right = begin(false, true, true);
  message.process = other.id();
  say(message);
  test::expect_in(why_given_up(*right), "belongs to user 65534");
}

TEST_F(ShmSetUp, ASegmentThatCannotBeUsedIsRefusedWithTheReason) {
  SetUpMessage message = offer();
  message.segment_bytes += 64;
  {
    auto right = begin(false);
    say(message);
    test::expect_in(why_given_up(*right), "the peer's segment has another layout");
  }
  {
    auto right = answered(offer());
    segment_->nonce[3] ^= std::byte{1};
    say(proof(true));
    test::expect_in(why_given_up(*right), "that is another process's segment");
  }
  message = offer();
  message.descriptor = 1 << 20;
  auto right = answered(message);
  say(proof(true));
  test::expect_in(why_given_up(*right), "may not open the peer's shared memory");
}

TEST_F(ShmSetUp, TheConnectingEndOffersASegmentOfItsOwn) {
  auto left = begin(true);
  EXPECT_EQ(left->poll(), nullptr);
  const SetUpMessage offered = heard();
  EXPECT_EQ(offered.kind, Kind::kOffer);
  EXPECT_EQ(offered.segment_bytes, sizeof(Segment));
  const Mapping mapped =
      Mapping::open(static_cast<std::int64_t>(offered.process), static_cast<int>(offered.descriptor));
  kept_ = offered.nonce;
  their_witness_ = offered.witness;
  say(of(Kind::kAnswer));
  EXPECT_EQ(left->poll(), nullptr);
  EXPECT_EQ(mapped->nonce, kNonce) << "the accepting end knows the segment by it";
  EXPECT_TRUE(they_keep_ours());
  const SetUpMessage proved = heard();
  EXPECT_EQ(proved.kind, Kind::kProved);
  EXPECT_TRUE(proved.can_fetch);
  say(proof(true));
  EXPECT_NE(left->poll(), nullptr);
  // The segment's file is closed: the mappings keep it.
  EXPECT_THROW(
      Mapping::open(static_cast<std::int64_t>(offered.process), static_cast<int>(offered.descriptor)), Error);
}

TEST_F(ShmSetUp, ARefusalEndsTheConnectingEnd) {
  auto left = begin(true);
  EXPECT_EQ(left->poll(), nullptr);
  say(SetUpMessage::refusal("another PID namespace"));
  try {
    left->poll();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    test::expect_in(error.what(), "the peer says: another PID namespace");
  }
}

}  // namespace
}  // namespace tombolo::transport::shm
