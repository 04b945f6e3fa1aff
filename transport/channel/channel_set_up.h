// How the two ends of a control channel set up a connection whose bytes take another way: they exchange
// messages, test whether bytes get through that way, and tell each other the result. Where something fails,
// the other end is told the reason, and the router tries the next way.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "transport/channel/control_channel.h"
#include "transport/sockets/exchange.h"

namespace tombolo::transport::channel {

/// Limits how long a test may take: its descriptor ends a sleep when the time is over.
class TestTimer {
 public:
  /// Throws kSystem where the kernel gives no timer.
  explicit TestTimer(const Clock* clock);
  /// Allows a part of the time that is left for the whole set-up.
  void begin(const Deadline& whole) { begin(std::min(kTestTime, whole.remaining() / 2)); }
  void begin(Duration allowed);
  bool passed() const noexcept { return clock_->now() >= until_; }
  Duration allowed() const noexcept { return allowed_; }
  int descriptor() const noexcept { return timer_.get(); }

 private:
  // A path on which the test takes longer is taken for dead, so that time is left to try another way.
  static constexpr Duration kTestTime = std::chrono::seconds(10);

  const Clock* clock_;
  Duration allowed_{};
  TimePoint until_{};
  Descriptor timer_;
};

/// Corrects the route where the control channel goes over one pair of NICs and the messages over another.
void note_first_nic_pair(ControlChannel& channel);

/// `Message` is what a backend's ends tell each other: of Message::kBytes bytes and a Message::Kind, among
/// them kOffer (the connecting end begins with it), kAnswer, kProved (the test has passed) and kRefusal (with
/// `reason`).
template <typename Message>
class ChannelSetUp : public Connecting {
 public:
  std::unique_ptr<Connection> poll() final;
  void append_wait_handles(std::vector<pollfd>& handles) const final;

 protected:
  using Kind = typename Message::Kind;

  /// `means` says in error messages what the two ends were to agree on.
  ChannelSetUp(ControlChannel channel, std::string_view carrier, std::string_view means)
      : channel_(std::move(channel)),
        description_(describe(carrier, channel_.route, channel_.peer_name)),
        means_(means),
        due_(channel_.connecting ? Kind::kAnswer : Kind::kOffer),
        timer_(channel_.clock) {}

  /// What a backend throws where something of the peer's is not where the peer says: the peer may be another
  /// process, or go away this very moment. Which one it is its end of the channel tells, which a peer that
  /// goes closes before it takes away what the other end looks at.
  class NotThere : public Error {
   public:
    explicit NotThere(const std::string& what) : Error(Cause::kUnsupported, what) {}
  };

  /// Takes a message of the kind that was due; returns the kind that is due next. The peer is told the text
  /// of what this throws.
  virtual Kind hear(const Message& message) = 0;
  /// Takes the peer's kProved, in backends whose kProved carries more than the fact.
  virtual void hear_proof(const Message&) {}
  /// Called repeatedly after begin_test(); it calls prove() once the test has passed. A backend whose test
  /// takes no time calls prove() without begin_test().
  virtual void watch_test() {}
  /// Appends what the test waits for; returns true where there is something to look at already.
  virtual bool append_test_handles(std::vector<pollfd>&) const { return false; }
  /// Makes the connection. Called once the test has passed for both ends.
  virtual std::unique_ptr<Connection> make() = 0;

  void say(const Message& message) { writer_.set(message.encode()); }
  /// A peer that has heard that this end's test passed may have its connection: it would take a refusal for
  /// words of that, and sees the channel end instead.
  [[noreturn]] void give_up(Cause cause, std::string_view why) {
    if (!proved_) {
      say(Message::refusal(why));
      writer_.write(socket());
    }
    fail(cause, "{}: {}", description_, why);
  }
  void begin_test() {
    testing_ = true;
    timer_.begin(channel_.deadline);
  }
  /// To be called when the test has passed at this end; tells the peer by `message`.
  void prove(const Message& message) {
    proved_ = true;
    say(message);
    write();
  }
  bool proved() const noexcept { return proved_; }
  const TestTimer& timer() const noexcept { return timer_; }

  ControlChannel channel_;
  std::string description_;

 private:
  int socket() const noexcept { return channel_.socket.get(); }
  /// Writes what is left of the message; true once all is written.
  bool write() {
    const sockets::Step step = writer_.write(socket());
    if (step == sockets::Step::kError) fail(Cause::kRemote, "{}: the control channel broke", description_);
    return step == sockets::Step::kDone;
  }
  void take(const Message& message);

  /// Within this time the end of the channel is heard of on one host, however busy that is.
  static constexpr Duration kLastWordTime = std::chrono::milliseconds(20);

  std::string means_;
  Kind due_;                           // what the other end says next
  std::optional<NotThere> not_there_;  // why this end is to give up, unless the peer goes meanwhile
  bool testing_ = false, proved_ = false, peer_proved_ = false;
  TestTimer timer_;
  sockets::MessageReader reader_;
  sockets::MessageWriter writer_;
};

template <typename Message>
std::unique_ptr<Connection> ChannelSetUp<Message>::poll() {
  for (;;) {
    write();
    if (testing_ && !not_there_) watch_test();
    if (proved_ && peer_proved_) break;
    const sockets::Step step = reader_.read(socket(), Message::kBytes);
    if (step == sockets::Step::kAgain) {
      if (not_there_ && timer_.passed()) give_up(not_there_->cause(), not_there_->what());
      if (channel_.deadline.passed()) give_up(Cause::kTimeout, "the peer did not answer in time");
      return nullptr;
    }
    if (step != sockets::Step::kDone)
      fail(Cause::kRemote, "{}: the peer closed the control channel before {} agreed on", description_,
           means_);
    const Message message = Message::decode(reader_.bytes());
    reader_.clear();
    if (message.kind == Kind::kRefusal)
      fail(Cause::kUnsupported, "{}: the peer says: {}", description_, message.reason);
    if (not_there_) {  // what it said before it went, or more than it should: for that time alone
      if (timer_.passed()) give_up(not_there_->cause(), not_there_->what());
      continue;
    }
    try {
      take(message);
    } catch (const NotThere& error) {
      not_there_ = error;
      timer_.begin(kLastWordTime);
    } catch (const Error& error) {
      give_up(error.cause(), error.what());
    }
  }
  if (!write()) return nullptr;
  note_first_nic_pair(channel_);
  return make();
}

template <typename Message>
void ChannelSetUp<Message>::take(const Message& message) {
  if (message.kind != due_) {
    fail(Cause::kRemote, "the peer said {} where {} was due", static_cast<int>(message.kind),
         static_cast<int>(due_));
  }
  if (message.kind == Kind::kProved) {
    peer_proved_ = true;
    hear_proof(message);
  } else {
    due_ = hear(message);
  }
}

template <typename Message>
void ChannelSetUp<Message>::append_wait_handles(std::vector<pollfd>& handles) const {
  const bool look_again = testing_ && !not_there_ && append_test_handles(handles);
  if ((testing_ && !proved_) || not_there_) handles.push_back({timer_.descriptor(), POLLIN, 0});
  // The channel can always be written, so that polling for that ends the sleep at once.
  handles.push_back({socket(), static_cast<short>(look_again ? POLLIN | POLLOUT : POLLIN), 0});
}

}  // namespace tombolo::transport::channel
