// What a rank answers to requests that are wrong, come early, or are not understood, and how signals of
// several ranks take turns. The other rank is played by raw messages.
#include "net_plugin/rma/target.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "transport/memory/pair.h"

namespace tombolo::net_plugin::rma {
namespace {

using transport::Outcome;

class PretendedWindows final : public Windows {
 public:
  const Window* find(std::uint32_t number) const noexcept override {
    const auto found = windows.find(number);
    return found != windows.end() ? &found->second : nullptr;
  }
  bool is_to_come(std::uint32_t number) const noexcept override { return number >= next; }
  Duration patience() const noexcept override { return wait; }
  bool by_nic() const noexcept override { return true; }
  void note(const std::string&) const noexcept override {}
  bool take_turn(const void* owner) noexcept override {
    if (turn == nullptr) turn = owner;
    return turn == owner;
  }
  void end_turn(const void* owner) noexcept override {
    if (turn == owner) turn = nullptr;
  }

  std::map<std::uint32_t, Window> windows;
  std::uint32_t next = 2;
  Duration wait = std::chrono::seconds(60);
  const void* turn = nullptr;
};

class RmaTarget : public testing::Test {
 protected:
  RmaTarget() {
    windows_.windows[0] = {0, memory_.data(), memory_.size(), nullptr};
    windows_.windows[1] = {1, reinterpret_cast<std::byte*>(words_.data()), sizeof(words_), nullptr};
    auto [asks, answers] = transport::memory::make_pair();
    asks_ = std::move(asks);
    target_ = std::make_unique<Target>(5, std::move(answers), windows_, pieces_);
  }
  void send(std::span<const std::byte> bytes) {
    transport::Request* request = asks_->post_send(bytes);
    ASSERT_NE(request, nullptr);
    std::size_t sent = 0;
    for (int i = 0; i < 100 && asks_->test(request, sent) == Outcome::kPending; ++i) target_->progress();
  }
  void send(const RequestFrame& frame, std::size_t inline_bytes = 0) {
    std::vector<std::byte> bytes(sizeof(frame) + inline_bytes, std::byte{7});
    std::memcpy(bytes.data(), &frame, sizeof(frame));
    send(bytes);
  }
  /// Nothing while no answer comes.
  std::optional<ReplyFrame> answer() {
    if (waiting_ == nullptr) waiting_ = asks_->post_receive(reply_);
    std::size_t size = 0;
    for (int i = 0; i < 100; ++i) {
      target_->progress();
      if (asks_->test(waiting_, size) == Outcome::kPending) continue;
      waiting_ = nullptr;
      ReplyFrame read;
      std::memcpy(&read, reply_.data(), sizeof(read));
      return read;
    }
    return std::nullopt;
  }
  static RequestFrame put_of(std::uint64_t bytes, std::uint64_t offset) {
    RequestFrame frame;
    frame.kind = OperationKind::kPut;
    frame.window = 0;
    frame.bytes = bytes;
    frame.offset = offset;
    return frame;
  }
  static RequestFrame signal_at(std::uint64_t offset) {
    RequestFrame frame;
    frame.kind = OperationKind::kPut;
    frame.signal_window = 1;
    frame.signal_offset = offset;
    frame.signal_add = 3;
    return frame;
  }
  void expect_refused(Answer why) {
    const auto reply = answer();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->answer, why);
    EXPECT_EQ(memory_, decltype(memory_){}) << "nothing was written";
    EXPECT_EQ(words_, decltype(words_){});
    EXPECT_NE(target_->error().find("rank 5"), std::string::npos) << target_->error();
    // What follows is not carried out.
    send(put_of(1, 0), 1);
    EXPECT_FALSE(answer());
    EXPECT_EQ(memory_, decltype(memory_){});
  }

  std::array<std::byte, 256> memory_{};
  std::array<std::uint64_t, 4> words_{};
  PretendedWindows windows_;
  CopyPieces pieces_{std::make_shared<gpu::Staging>(nullptr, std::size_t{1} << 20, 1)};
  std::array<std::byte, kFrameBytes> reply_{};
  transport::Request* waiting_ = nullptr;
  std::unique_ptr<transport::Connection> asks_;
  std::unique_ptr<Target> target_;
};

TEST_F(RmaTarget, CarriesOutWhatFits) {
  send(put_of(256, 0), 256);
  ASSERT_EQ(answer()->answer, Answer::kDone);
  EXPECT_EQ(memory_[0], std::byte{7});
  EXPECT_EQ(memory_[255], std::byte{7});
  send(signal_at(24));
  ASSERT_EQ(answer()->answer, Answer::kDone);
  EXPECT_EQ(words_[3], 3U);
}

TEST_F(RmaTarget, RefusesOneByteBeyondTheWindow) {
  send(put_of(2, 255), 2);
  expect_refused(Answer::kOutOfWindow);
}

TEST_F(RmaTarget, RefusesARangeWhoseEndOverflows) {
  send(put_of(2, std::numeric_limits<std::uint64_t>::max()), 2);
  expect_refused(Answer::kOutOfWindow);
}

TEST_F(RmaTarget, RefusesAWindowThatWasDeregistered) {
  windows_.windows.erase(0);
  send(put_of(2, 0), 2);
  expect_refused(Answer::kNoSuchWindow);
}

TEST_F(RmaTarget, RefusesASignalThatIsNotAligned) {
  send(signal_at(4));
  expect_refused(Answer::kNoSuchSignal);
}

TEST_F(RmaTarget, RefusesASignalBeyondTheWindow) {
  send(signal_at(32));
  expect_refused(Answer::kNoSuchSignal);
}

TEST_F(RmaTarget, RefusesAFrameThatIsTooShort) {
  send(std::vector<std::byte>(sizeof(RequestFrame) - 1));
  expect_refused(Answer::kNotUnderstood);
}

TEST_F(RmaTarget, RefusesAFrameWithOtherBytesThanItSays) {
  send(put_of(9, 0), 8);
  expect_refused(Answer::kNotUnderstood);
}

TEST_F(RmaTarget, RefusesAnUnknownOperation) {
  RequestFrame frame = put_of(0, 0);
  frame.kind = static_cast<OperationKind>(9);
  send(frame);
  expect_refused(Answer::kNotUnderstood);
}

TEST_F(RmaTarget, HoldsAnOperationUntilItsWindowIsRegistered) {
  windows_.windows.erase(0);
  windows_.next = 0;
  send(put_of(2, 0), 2);
  EXPECT_FALSE(answer());
  windows_.windows[0] = {0, memory_.data(), memory_.size(), nullptr};
  windows_.next = 2;
  ASSERT_EQ(answer()->answer, Answer::kDone);
  EXPECT_EQ(memory_[1], std::byte{7});
}

TEST_F(RmaTarget, RefusesAnOperationWhoseWindowNeverComes) {
  windows_.windows.erase(0);
  windows_.next = 0;
  windows_.wait = Duration{0};
  send(put_of(2, 0), 2);
  expect_refused(Answer::kNoSuchWindow);
}

TEST_F(RmaTarget, ASignalWaitsForItsTurn) {
  const int another = 0;
  ASSERT_TRUE(windows_.take_turn(&another));
  send(signal_at(0));
  EXPECT_FALSE(answer());
  EXPECT_EQ(words_[0], 0U);
  windows_.end_turn(&another);
  ASSERT_EQ(answer()->answer, Answer::kDone);
  EXPECT_EQ(words_[0], 3U);
  EXPECT_EQ(windows_.turn, nullptr);
}

}  // namespace
}  // namespace tombolo::net_plugin::rma
