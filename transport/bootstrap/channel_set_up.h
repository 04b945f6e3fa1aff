// How the two ends of a link come to a connection whose messages go another way: they exchange cards, test
// whether bytes get through that way, and tell each other. Where something fails, the other end is told the
// reason, and the router turns to the next way.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "transport/bootstrap/control_channel.h"
#include "transport/bootstrap/exchange.h"

namespace tombolo::transport::bootstrap {

/// The time for a test, which ends whoever sleeps through it.
class TestTimer {
 public:
  /// Throws kSystem.
  explicit TestTimer(const Clock* clock);
  void begin(const Deadline& whole);
  bool passed() const noexcept { return clock_->now() >= until_; }
  Duration allowed() const noexcept { return allowed_; }
  int descriptor() const noexcept { return timer_.get(); }

 private:
  const Clock* clock_;
  Duration allowed_{};
  TimePoint until_{};
  Descriptor timer_;
};

/// The connecting end asked over the first pair of lanes; from here on the route says which one it is.
void note_first_nic_pair(ControlChannel& channel);

/// `Card` is what a backend's ends tell each other: of Card::kBytes bytes and a Card::Kind, among them kOffer
/// (the connecting end begins with it), kAnswer, kProved (the test has passed) and kRefusal (with `reason`).
template <typename Card>
class ChannelSetUp : public Connecting {
 public:
  std::unique_ptr<Connection> poll() final;
  void append_wait_handles(std::vector<pollfd>& handles) const final;

 protected:
  using Kind = typename Card::Kind;

  /// `means`: what is to be agreed on, for messages.
  ChannelSetUp(ControlChannel channel, std::string_view carrier, std::string_view means)
      : channel_(std::move(channel)),
        description_(describe(carrier, channel_.route, channel_.peer_name)),
        means_(means),
        due_(channel_.connecting ? Kind::kAnswer : Kind::kOffer),
        timer_(channel_.clock) {}

  /// Takes a card of the kind that was due; gives the kind that is due next. What it throws the peer is told.
  virtual Kind hear(const Card& card) = 0;
  /// Called again and again once begin_test() was; proved(), once the test has passed.
  virtual void watch_test() = 0;
  /// What the test waits for; true where there is something to look at already.
  virtual bool append_test_handles(std::vector<pollfd>& handles) const = 0;
  /// Once the test has passed for both ends.
  virtual std::unique_ptr<Connection> make() = 0;

  void say(const Card& card) { writer_.set(card.encode()); }
  [[noreturn]] void give_up(Cause cause, std::string_view why) {
    say(Card::refusal(why));
    writer_.write(socket());
    fail(cause, "{}: {}", description_, why);
  }
  void begin_test() {
    testing_ = true;
    timer_.begin(channel_.deadline);
  }
  /// The test has passed here. `card` tells the peer.
  void prove(const Card& card) {
    proved_ = true;
    say(card);
    write();
  }
  bool proved() const noexcept { return proved_; }
  const TestTimer& timer() const noexcept { return timer_; }

  ControlChannel channel_;
  std::string description_;

 private:
  int socket() const noexcept { return channel_.socket.get(); }
  /// True once all is written.
  bool write() {
    const Step step = writer_.write(socket());
    if (step == Step::kError) fail(Cause::kRemote, "{}: the link broke", description_);
    return step == Step::kDone;
  }
  void take(const Card& card);

  std::string means_;
  Kind due_;  // what the other end says next
  bool testing_ = false, proved_ = false, peer_proved_ = false;
  TestTimer timer_;
  MessageReader reader_;
  MessageWriter writer_;
};

template <typename Card>
std::unique_ptr<Connection> ChannelSetUp<Card>::poll() {
  for (;;) {
    write();
    if (testing_) watch_test();
    if (proved_ && peer_proved_) break;
    const Step step = reader_.read(socket(), Card::kBytes);
    if (step == Step::kAgain) {
      if (channel_.deadline.passed()) give_up(Cause::kTimeout, "the peer did not answer in time");
      return nullptr;
    }
    if (step != Step::kDone)
      fail(Cause::kRemote, "{}: the peer closed the link before {} agreed on", description_, means_);
    const Card card = Card::decode(reader_.bytes());
    reader_.clear();
    if (card.kind == Kind::kRefusal)
      fail(Cause::kUnsupported, "{}: the peer says: {}", description_, card.reason);
    try {
      take(card);
    } catch (const Error& error) {
      give_up(error.cause(), error.what());
    }
  }
  if (!write()) return nullptr;
  note_first_nic_pair(channel_);
  return make();
}

template <typename Card>
void ChannelSetUp<Card>::take(const Card& card) {
  if (card.kind != due_) {
    fail(Cause::kRemote, "the peer said {} where {} was due", static_cast<int>(card.kind),
         static_cast<int>(due_));
  }
  if (card.kind == Kind::kProved)
    peer_proved_ = true;
  else
    due_ = hear(card);
}

template <typename Card>
void ChannelSetUp<Card>::append_wait_handles(std::vector<pollfd>& handles) const {
  const bool look_again = testing_ && append_test_handles(handles);
  if (testing_ && !proved_) handles.push_back({timer_.descriptor(), POLLIN, 0});
  // A link can always be written: that ends the sleep.
  handles.push_back({socket(), static_cast<short>(look_again ? POLLIN | POLLOUT : POLLIN), 0});
}

}  // namespace tombolo::transport::bootstrap
