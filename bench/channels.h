// Several connections from one process to another, each carrying messages one way, driven by one thread as
// NCCL's proxy thread drives the connections of its channels. Plugins and plain TCP are measured by them.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/ways.h"
#include "net_plugin/client.h"

namespace tombolo::bench {

/// Yields the processor in every 256th pass in which nothing moved. NCCL yields in each pass; on a machine
/// with other work that would measure how long the time slices of the others are.
inline void spin_and_yield(unsigned passes) noexcept {
  if (passes % 256 == 0) ::sched_yield();
}

/// The messages of one measurement of throughput: `count` on each of `channels` channels, with kOutstanding
/// of a channel in flight. `slots` has room for channels * kOutstanding messages of `size`.
struct Stream {
  std::size_t channels = 1, size = 0, count = 0;
  std::span<std::byte> slots;
  /// The receiving end adds the bytes of each message that has arrived; may be null.
  std::uint64_t* received = nullptr;
  /// Called when nothing has moved for `passes` passes.
  void (*idle)(unsigned passes) = spin_and_yield;
  /// Called now and then, where given. After false the sending end posts no more messages and finishes those
  /// in flight; the receiving end, and plain TCP, stop at once.
  std::function<bool()> go_on;

  std::span<std::byte> slot(std::size_t channel, std::size_t index) const {
    return slots.subspan((channel * kOutstanding + index % kOutstanding) * size, size);
  }
};

/// The number of passes of a stream between two calls of go_on.
inline constexpr unsigned kPassesPerQuestion = 64;

/// stamp() writes channel and index into the first and last bytes of a message; check_stamp() throws
/// kInternal where they differ.
void stamp(std::span<std::byte> message, std::size_t channel, std::size_t index);
void check_stamp(std::span<const std::byte> message, std::size_t channel, std::size_t index);

class Channels {
 public:
  virtual ~Channels() = default;
  virtual std::string name() const = 0;
  /// Sends one message on channel 0; returns when the buffer may be used again. receive() returns when it is
  /// filled.
  virtual void send(std::span<std::byte> data) = 0;
  virtual void receive(std::span<std::byte> buffer) = 0;
  /// Runs one direction of a stream. The sending end stamps every message, and the receiving end checks the
  /// stamp.
  virtual void stream(bool sending, const Stream& stream) = 0;
};

/// Sockets without any protocol on top, driven by polling.
class PlainChannels final : public Channels {
 public:
  /// A socket per channel, for both directions. Messages below 64 KiB are written and read several at a time,
  /// at most kOutstanding. That is the least work possible, but does not tell when a single message has
  /// arrived. `sockets` are connected to those of the other process, channel by channel. Takes ownership of
  /// them.
  explicit PlainChannels(std::vector<int> sockets) : out_(std::move(sockets)) {}
  /// Uses sockets as NCCL does: one per channel and direction, with each message on its own.
  PlainChannels(std::vector<int> out, std::vector<int> in) : out_(std::move(out)), in_(std::move(in)) {}
  ~PlainChannels() override;
  std::string name() const override {
    return in_.empty() ? "plain TCP, 64 KiB at a time" : "plain TCP, message by message, each way its socket";
  }
  void send(std::span<std::byte> data) override;
  void receive(std::span<std::byte> buffer) override;
  void stream(bool sending, const Stream& stream) override;

 private:
  const std::vector<int>& incoming() const { return in_.empty() ? out_ : in_; }
  std::vector<int> out_, in_;  // in_ is empty where out_ serves both directions
};

/// A plugin's comms, one per channel and direction. Tests the oldest request of each in turn, as NCCL does.
class PluginChannels final : public Channels {
 public:
  /// `control` is a stream socket to the other process, which constructs its end at the same time.
  PluginChannels(std::unique_ptr<net_plugin::Client> client, std::size_t channels, int control);
  ~PluginChannels() override;
  std::string name() const override;
  void send(std::span<std::byte> data) override;
  void receive(std::span<std::byte> buffer) override;
  void stream(bool sending, const Stream& stream) override;

 private:
  struct Comm {
    void *send = nullptr, *receive = nullptr;
  };
  void* post(bool sending, const Comm& comm, std::span<std::byte> data);
  bool done(void* request);

  std::unique_ptr<net_plugin::Client> client_;
  void* context_ = nullptr;
  std::vector<Comm> comms_;
};

/// Loads a library's newest table, or that of version `abi`. Throws as Client::load() does.
std::unique_ptr<net_plugin::Client> load_plugin(const std::string& path, int abi);

}  // namespace tombolo::bench
