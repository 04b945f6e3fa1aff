// For tests: one direction of a connection in which messages of all sizes are under way at once, between host
// memory and that of pretended GPUs.
#pragma once

#include <deque>

#include "net_plugin/testing/staged_connections.h"

namespace tombolo::net_plugin::gpu {

/// A size that has something to do with pieces, or none.
inline std::size_t draw_size(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return random() % 9;
    case 1:
      return random() % 16384;
    case 2:
      return (random() % 4) * kPieceBytes;
    case 3:
      return (1 + random() % 3) * kPieceBytes + random() % 3 - 1;
    case 4:
      return std::size_t{1} << (random() % 21);
    default:
      return random() % 1'000'000;
  }
}

/// One direction of a connection in which messages of all kinds are under way.
class Traffic {
 public:
  Traffic(transport::Connection& from, transport::Connection& to, std::size_t count, unsigned seed, int gpus)
      : from_(from), to_(to), random_(seed) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t size = draw_size(random_), room = size + random_() % 3 * (random_() % 1000);
      auto& one = messages_.emplace_back();
      one.bytes = transport::test::random_data(random_, size);
      const auto gpu = [&] { return static_cast<int>(random_() % static_cast<unsigned>(gpus)); };
      const auto of = [&] { return random_() % 4 == 0 ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext; };
      one.from = std::make_unique<Buffer>(from, size, random_() % 2 == 0, gpu(), of());
      one.to = std::make_unique<Buffer>(to, room, random_() % 2 == 0, gpu(), of());
      one.from->write(one.bytes);
    }
  }
  /// Messages that were received, and those among them that needed a flush.
  std::size_t received() const { return received_; }
  std::size_t flushed() const { return flushed_; }
  bool over() const { return sent_ == messages_.size() && received_ == messages_.size(); }

  /// Does one thing at random.
  void turn() {
    switch (random_() % 4) {
      case 0:
        if (posted_sends_ < messages_.size() && posted_sends_ - sent_ < 8) {
          Message& next = messages_[posted_sends_];
          next.send = from_.post_send(next.from->span(), next.from->memory());
          if (next.send != nullptr) ++posted_sends_;
        }
        break;
      case 1:
        if (posted_receives_ < messages_.size() && posted_receives_ - received_ < 8) {
          Message& next = messages_[posted_receives_];
          next.receive = to_.post_receive(next.to->span(), next.to->memory());
          if (next.receive != nullptr) ++posted_receives_;
        }
        break;
      case 2:
        test_any(from_, &Message::send, posted_sends_, sent_);
        break;
      default:
        test_any(to_, &Message::receive, posted_receives_, received_);
        break;
    }
  }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::unique_ptr<Buffer> from, to;
    transport::Request* send = nullptr;
    transport::Request* receive = nullptr;
  };

  /// Any posted one, in whatever order.
  void test_any(transport::Connection& connection, transport::Request* Message::*which, std::size_t posted,
                std::size_t& count) {
    std::vector<Message*> under_way;
    for (std::size_t i = 0; i < posted; ++i)
      if (messages_[i].*which != nullptr) under_way.push_back(&messages_[i]);
    if (under_way.empty()) {
      connection.progress();
      return;
    }
    Message& message = *under_way[random_() % under_way.size()];
    transport::Request*& request = message.*which;
    std::size_t bytes = 0;
    const Outcome outcome = connection.test(request, bytes);
    if (outcome == Outcome::kPending) return;
    ASSERT_EQ(outcome, Outcome::kDone) << connection.error()->what();
    EXPECT_EQ(bytes, message.bytes.size());
    request = nullptr;
    ++count;
    if (which == &Message::send) return;
    // What NICs have written is seen once it is flushed.
    if (transport::Request* flush = to_.post_flush(message.to->span().first(bytes), message.to->memory())) {
      std::size_t none = 0;
      ASSERT_EQ(transport::test::finish(to_, flush, none, &from_), Outcome::kDone) << to_.error()->what();
      ++flushed_;
    }
    std::vector<std::byte> got = message.to->read();
    for (std::size_t at = bytes; at < got.size(); ++at)
      ASSERT_EQ(got[at], std::byte{0xa5}) << "behind the message";
    got.resize(bytes);
    ASSERT_TRUE(got == message.bytes) << bytes << " bytes differ";
  }

  transport::Connection& from_;
  transport::Connection& to_;
  std::mt19937_64 random_;
  std::deque<Message> messages_;
  std::size_t posted_sends_ = 0, sent_ = 0, posted_receives_ = 0, received_ = 0, flushed_ = 0;
};

}  // namespace tombolo::net_plugin::gpu
