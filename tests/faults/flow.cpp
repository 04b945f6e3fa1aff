#include "tests/faults/flow.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace tombolo::faults {
namespace {

using transport::Connection;
using transport::Outcome;
using transport::Request;

constexpr std::size_t kOutstanding = 8;
constexpr std::size_t kGuard = 64;        // bytes behind each receive that must stay as they are
constexpr std::size_t kMostSlack = 4096;  // a receive is up to so many bytes larger than its message
constexpr Duration kSetUp = std::chrono::seconds(30);
constexpr std::byte kUntouched{0xa5};

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t word_at(std::uint64_t base, std::uint64_t i) {
  return (base + i) * 0x9e3779b97f4a7c15ULL;
}

std::uint64_t base_of(std::uint64_t stream, std::uint64_t index) {
  return mix(stream * 0x2545f4914f6cdd1dULL + index);
}

/// One direction of one connection at one end, with the messages that are in flight.
struct OneWayFlow {
  struct Message {
    Request* request = nullptr;
    std::uint64_t index = 0;
    std::vector<std::byte> buffer;
  };
  std::uint64_t stream = 0;
  std::uint64_t posted = 0, finished = 0;
  std::vector<Message> in_flight{kOutstanding};

  Message* free_message() {
    auto free = std::ranges::find(in_flight, nullptr, &Message::request);
    return free == in_flight.end() ? nullptr : &*free;
  }
};

class End {
 public:
  End(std::size_t end, const FlowOptions& options, Board& board)
      : options_(options),
        mine_(board.ends[end]),
        other_(board.ends[1 - end]),
        board_(board),
        end_(end),
        random_(options.seed * 2 + end) {}

  void connect(int channel) {
    router_ = std::make_unique<transport::Router>(options_.router);
    if (end_ == 0) {
      listener_ = router_->listen();
      auto encoded = listener_->endpoint().encode();
      if (::send(channel, encoded.data(), encoded.size(), 0) != static_cast<ssize_t>(encoded.size()))
        fail_errno(errno, "telling the endpoint");
    }
    connections_.resize(options_.connections);
    std::vector<std::unique_ptr<transport::Connecting>> connecting;
    if (end_ == 1) {
      std::vector<std::byte> encoded(65536);
      ssize_t got = ::recv(channel, encoded.data(), encoded.size(), 0);
      if (got <= 0) fail(Cause::kRemote, "no endpoint from the listening end");
      auto endpoint = transport::Endpoint::decode(std::span(encoded).first(static_cast<std::size_t>(got)));
      for (std::size_t c = 0; c < connections_.size(); ++c) {
        connecting.push_back(
            router_->connect(endpoint, {.label = c, .deadline = kSetUp, .peer_name = "end 0"}));
      }
    }
    Deadline deadline = Deadline::after(kSetUp);
    for (std::size_t have = 0; have < connections_.size();) {
      if (deadline.passed()) fail(Cause::kTimeout, "{} of {} connections", have, connections_.size());
      std::vector<pollfd> handles;
      if (listener_) {
        if (auto connection = listener_->accept()) {
          connections_.at(connection->label()) = std::move(connection);
          ++have;
          continue;
        }
        listener_->append_wait_handles(handles);
      }
      for (std::size_t c = 0; c < connecting.size(); ++c) {
        if (!connecting[c]) continue;
        if (auto connection = connecting[c]->poll()) {
          connections_[c] = std::move(connection);
          connecting[c].reset();
          ++have;
        } else {
          connecting[c]->append_wait_handles(handles);
        }
      }
      ::poll(handles.data(), handles.size(), 5);
    }
    if (!options_.keep_listener) listener_.reset();
    for (std::size_t c = 0; c < connections_.size(); ++c) {
      // The direction from end e is stream 2c + e of the seed.
      const std::uint64_t first = mix(options_.seed) + 2 * c;
      sends_.push_back({first + end_});
      receives_.push_back({first + 1 - end_});
    }
  }

  void flow() {
    mine_.last_completion = now();
    mine_.state = EndState::kFlowing;
    std::int64_t begun = now();
    for (std::uint64_t pass = 0; !(all_sent() && all_received()); ++pass) {
      bool moved = false;
      const std::int64_t begins = now();
      mine_.longest_pass = std::max(mine_.longest_pass.load(), begins - begun);
      begun = begins;
      for (std::size_t c = 0; c < connections_.size(); ++c) {
        moved |= post_sends(c);
        moved |= post_receives(c);
        moved |= test_some(c);
        if (const Error* error = connections_[c]->error()) throw *error;
      }
      if (pass % 64 == 0 || !moved) tell();
      if (!moved) rest();
    }
    mine_.state = EndState::kFinished;
    // The other end may still lack what this one sent. Once it has all, it may close first.
    while (other_.state == EndState::kFlowing) rest();
    tell();
  }

 private:
  static std::int64_t now() { return Clock::steady().now().time_since_epoch().count(); }

  bool post_sends(std::size_t c) {
    OneWayFlow& direction = sends_[c];
    bool any = false;
    while (!board_.stop) {
      OneWayFlow::Message* message = direction.free_message();
      if (message == nullptr) break;
      message->buffer.resize(size_of_message(direction.stream, direction.posted, options_.largest));
      fill_message(message->buffer, direction.stream, direction.posted);
      message->request = connections_[c]->post_send(message->buffer);
      if (message->request == nullptr) break;
      message->index = direction.posted++;
      any = true;
    }
    return any;
  }

  bool post_receives(std::size_t c) {
    OneWayFlow& direction = receives_[c];
    bool any = false;
    while (!mine_.pause && !(other_.senders_done && direction.posted >= other_.sent[c])) {
      OneWayFlow::Message* message = direction.free_message();
      if (message == nullptr) break;
      const std::size_t capacity =
          size_of_message(direction.stream, direction.posted, options_.largest) + random_() % kMostSlack;
      message->buffer.resize(capacity + kGuard);
      std::fill_n(message->buffer.begin() + static_cast<std::ptrdiff_t>(capacity), kGuard, kUntouched);
      message->request = connections_[c]->post_receive(std::span(message->buffer).first(capacity));
      if (message->request == nullptr) break;
      message->index = direction.posted++;
      any = true;
    }
    return any;
  }

  // A few requests of both directions, chosen at random: any may be tested first.
  bool test_some(std::size_t c) {
    bool any = false;
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t choice = random_();
      const bool receiving = (choice & 1) != 0;
      OneWayFlow& direction = receiving ? receives_[c] : sends_[c];
      OneWayFlow::Message& message = direction.in_flight[choice / 2 % kOutstanding];
      if (message.request == nullptr) continue;
      std::size_t bytes = 0;
      const Outcome outcome = connections_[c]->test(message.request, bytes);
      if (outcome == Outcome::kPending) continue;
      message.request = nullptr;
      if (outcome == Outcome::kFailed) throw *connections_[c]->error();
      ++direction.finished;
      if (receiving) check(c, direction, message, bytes);
      any = true;
    }
    return any;
  }

  void check(std::size_t c, const OneWayFlow& direction, const OneWayFlow::Message& message,
             std::size_t bytes) {
    const std::size_t expected = size_of_message(direction.stream, message.index, options_.largest);
    if (bytes != expected) {
      fail(Cause::kInternal, "WRONG SIZE: message {} of connection {} came with {} bytes instead of {}",
           message.index, c, bytes, expected);
    }
    const std::size_t differs =
        first_difference(std::span(message.buffer).first(bytes), direction.stream, message.index);
    if (differs != bytes) {
      fail(Cause::kInternal, "WRONG BYTES: message {} of connection {} ({} bytes) differs from byte {} on",
           message.index, c, bytes, differs);
    }
    if (!std::all_of(message.buffer.end() - kGuard, message.buffer.end(),
                     [](std::byte byte) { return byte == kUntouched; })) {
      fail(Cause::kInternal, "WRITTEN OUTSIDE: behind the receive of message {} of connection {}",
           message.index, c);
    }
    const std::int64_t at = now();
    mine_.longest_gap = std::max(mine_.longest_gap.load(), at - mine_.last_completion);
    mine_.last_completion = at;
    ++mine_.messages;
    mine_.bytes += bytes;
  }

  bool all_sent() {
    if (!board_.stop) return false;
    for (const OneWayFlow& direction : sends_) {
      if (direction.finished != direction.posted) return false;
    }
    if (!mine_.senders_done) {
      for (std::size_t c = 0; c < sends_.size(); ++c) mine_.sent[c] = sends_[c].posted;
      mine_.senders_done = true;
    }
    return true;
  }

  bool all_received() {
    // Posts of receives went ahead of what was sent in the end; those stay open.
    if (!other_.senders_done) return false;
    for (std::size_t c = 0; c < receives_.size(); ++c) {
      if (receives_[c].finished < other_.sent[c]) return false;
    }
    return true;
  }

  void tell() {
    std::uint64_t breaks = 0, rejoins = 0, replayed = 0;
    for (const auto& connection : connections_) {
      auto statistics = connection->statistics();
      breaks += statistics.breaks;
      rejoins += statistics.rejoins;
      replayed += statistics.replayed;
    }
    mine_.breaks = breaks;
    mine_.rejoins = rejoins;
    mine_.replayed = replayed;
  }

  void rest() {
    handles_.clear();
    for (const auto& connection : connections_) connection->append_wait_handles(handles_);
    ::poll(handles_.data(), handles_.size(), 5);
    for (const auto& connection : connections_) connection->progress();
  }

  const FlowOptions& options_;
  EndBoard& mine_;
  EndBoard& other_;
  Board& board_;
  std::size_t end_;
  std::mt19937_64 random_;
  std::unique_ptr<transport::Router> router_;
  std::unique_ptr<transport::Listener> listener_;
  std::vector<OneWayFlow> sends_, receives_;  // their buffers outlive the connections
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> handles_;
};

}  // namespace

std::size_t size_of_message(std::uint64_t stream, std::uint64_t index, std::size_t largest) {
  const std::uint64_t random = mix(base_of(stream, index) + 1);
  const std::size_t limit[] = {0, 1, 64, 4096, 65536, 65536, 1 << 20, largest};
  const std::size_t most = std::min(limit[random % 8], largest);
  return static_cast<std::size_t>((random >> 8) % (most + 1));
}

void fill_message(std::span<std::byte> message, std::uint64_t stream, std::uint64_t index) noexcept {
  const std::uint64_t base = base_of(stream, index);
  const std::size_t words = message.size() / 8;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = word_at(base, i);
    std::memcpy(message.data() + 8 * i, &word, 8);
  }
  const std::uint64_t last = word_at(base, words);
  if (message.size() % 8 != 0) std::memcpy(message.data() + 8 * words, &last, message.size() % 8);
}

std::size_t first_difference(std::span<const std::byte> message, std::uint64_t stream,
                             std::uint64_t index) noexcept {
  const std::uint64_t base = base_of(stream, index);
  for (std::size_t i = 0; 8 * i < message.size(); ++i) {
    const std::uint64_t word = word_at(base, i);
    const std::size_t bytes = std::min<std::size_t>(8, message.size() - 8 * i);
    if (std::memcmp(message.data() + 8 * i, &word, bytes) == 0) continue;
    std::byte expected[8];
    std::memcpy(expected, &word, 8);
    auto [at, other] = std::mismatch(expected, expected + bytes, message.data() + 8 * i);
    return 8 * i + static_cast<std::size_t>(at - expected);
  }
  return message.size();
}

void run_end(std::size_t end, const FlowOptions& options, int channel, Board& board) {
  try {
    End flow(end, options, board);
    flow.connect(channel);
    flow.flow();
  } catch (const Error& error) {
    board.ends[end].fail(error.cause(), error.what());
  } catch (const std::exception& error) {
    board.ends[end].fail(Cause::kInternal, error.what());
  }
}

}  // namespace tombolo::faults
