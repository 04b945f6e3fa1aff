// What connections over shared memory, RDMA and UCX have in common: requests in order, the connection's one
// error, and the check for a peer that takes nothing. Their control channel stays open beside them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/channel/control_channel.h"
#include "transport/failing.h"
#include "transport/kernel.h"
#include "transport/observe/meters.h"
#include "transport/request_pool.h"

namespace tombolo::transport::channel {

class ChannelConnection : public HostMemoryConnection {
 public:
  const Error* error() const noexcept final { return error_ ? &*error_ : nullptr; }
  std::uint64_t label() const noexcept final { return channel_.label; }
  const Route& route() const noexcept final { return channel_.route; }
  Statistics statistics() const noexcept final { return meter_->statistics(); }

 protected:
  ChannelConnection(ControlChannel channel, std::string_view carrier);

  int socket() const noexcept { return channel_.socket.get(); }
  /// Whether a forked child holds this copy: what its destructor did would be done to the parent's.
  bool is_copy() const noexcept { return generation_ != fork_generation(); }
  TimePoint now() const noexcept { return channel_.clock->now(); }

  /// Takes a request, which the caller then puts into its window. Null where there is no room now. After an
  /// error there is always one, and it fails when it is tested.
  PostedRequest* new_send(std::span<const std::byte> data) noexcept {
    if (!error_ && outgoing_.full()) return nullptr;
    if (outgoing_.empty()) moved_ = true;  // stalled() counts the time without progress from here
    return requests_.send(data);
  }
  PostedRequest* new_receive(std::span<std::byte> buffer) noexcept {
    if (!error_ && incoming_.full()) return nullptr;
    return requests_.receive(buffer);
  }
  /// The result of test() for this request, after the connection was progressed.
  Outcome outcome_of(PostedRequest& request, std::size_t& bytes) noexcept {
    return requests_.hand_back(request, error_.has_value(), bytes);
  }
  void finish_send(std::uint64_t sequence, PostedRequest& request) noexcept {
    request.moved = request.size;
    request.state = PostedRequest::State::kDone;
    meter_->sent_bytes.add(request.size);
    meter_->sent_messages.add(1);
    outgoing_.finish(sequence);
  }
  void finish_receive(std::uint64_t sequence, PostedRequest& request, std::size_t bytes) noexcept {
    request.moved = bytes;
    request.state = PostedRequest::State::kDone;
    meter_->received_bytes.add(bytes);
    meter_->received_messages.add(1);
    incoming_.finish(sequence);
  }

  /// Called after each round of progress. True where nothing moved for kTurnsToLook rounds, or in this one
  /// and the last check is kTimeToLook ago, so that checks are due that take system calls, stalled() among
  /// them: who turns without a break checks seldom as counted in turns, and who calls rarely in every call.
  bool count_turn(bool moved) noexcept {
    if (moved) {
      moved_ = true;
      idle_turns_ = 0;
      stalls_.moved(*meter_, *channel_.clock);
      return false;
    }
    const TimePoint time = channel_.clock->roughly_now();
    if (++idle_turns_ < kTurnsToLook) {
      if (time - last_look_ < kTimeToLook) return false;
    } else {
      idle_turns_ = 0;
    }
    last_look_ = time;
    return true;
  }
  /// How many rounds since something moved, counted anew after kTurnsToLook.
  unsigned idle_turns() const noexcept { return idle_turns_; }
  /// Why the connection is to fail; empty while the peer takes what is sent.
  std::string stalled();

  /// Sets the connection's error. Only the first call counts.
  void set_error(Cause cause, std::string_view what) noexcept;

  /// Called by append_wait_handles() to note that the owner will sleep: the next round of progress ends that
  /// sleep.
  void fall_asleep() const noexcept;
  /// Whether the owner has slept since the last call: true once after fall_asleep().
  bool wake_up() noexcept {
    const bool slept = sleeps_;
    sleeps_ = false;
    return slept;
  }
  /// What to poll on the control channel. It can always be written, so polling for that ends the sleep at
  /// once where there is to be another look.
  pollfd channel_handle(bool look_again) const noexcept {
    return {socket(), static_cast<short>(look_again ? POLLIN | POLLOUT : POLLIN), 0};
  }

  ControlChannel channel_;
  std::string description_;
  FailureTexts texts_;
  Requests requests_;
  Window outgoing_, incoming_;
  Metering meter_;
  std::optional<Error> error_;

 private:
  static constexpr unsigned kTurnsToLook = 1024;
  static constexpr Duration kTimeToLook = std::chrono::milliseconds(10);

  unsigned generation_ = fork_generation();
  mutable StallWatch stalls_;
  mutable bool sleeps_ = false;
  unsigned idle_turns_ = 0;
  TimePoint last_look_{};
  bool moved_ = true;
  TimePoint last_moved_{};
};

}  // namespace tombolo::transport::channel
