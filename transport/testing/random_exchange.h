// For tests: messages of all sizes both ways, while something happens to the connection.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "transport/testing/random_sizes.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::test {

/// Messages both ways by a random schedule; calls `between` before each step with the number of messages that
/// are done.
inline void exchange_randomly(
    Connection& left, Connection& right, std::mt19937_64& random, std::size_t messages,
    const std::function<void(std::size_t done)>& between = [](std::size_t) {}) {
  struct Side {
    Connection* connection;
    std::vector<std::vector<std::byte>> sent{}, wanted{}, buffers{};  // wanted: what its messages hold
    std::vector<std::unique_ptr<Memory>> memories{};
    std::vector<Request*> sends{}, receives{};
  };
  Side sides[2] = {{&left}, {&right}};
  for (Side& side : sides)
    for (std::size_t i = 0; i < messages; ++i)
      side.sent.push_back(random_data(random, random_size(random, 400'000)));
  for (Side& side : sides) side.wanted = side.sent;
  for (int s = 0; s < 2; ++s)
    for (const auto& message : sides[1 - s].sent)
      sides[s].buffers.emplace_back(message.size() + random() % 2 * 1000, std::byte{0x5a});
  const auto memory_for = [&](Side& side, std::span<std::byte> range) -> Memory* {
    if (random() % 2 == 0 || range.empty()) return nullptr;
    side.memories.push_back(side.connection->register_memory(range, MemoryKind::kHost));
    return side.memories.back().get();
  };
  // Some runs post few receives ahead, so that messages come before theirs.
  const std::size_t ahead = random() % 2 == 0 ? messages : 1 + random() % 3;
  std::size_t received[2] = {0, 0};
  const auto deadline = soon();
  for (std::size_t open = 4 * messages; open > 0;) {
    between(4 * messages - open);
    ASSERT_FALSE(deadline.passed()) << open << " are left: " << why_failed(left) << ", " << why_failed(right);
    const std::size_t s = random() % 2;
    Side& side = sides[s];
    side.connection->progress();
    switch (random() % 5) {
      case 0:
        if (side.sends.size() < messages) {
          auto& data = side.sent[side.sends.size()];
          Request* send = side.connection->post_send(data, memory_for(side, data));
          ASSERT_NE(send, nullptr);
          side.sends.push_back(send);
        }
        break;
      case 1:
        if (side.receives.size() < messages && side.receives.size() - received[s] < ahead) {
          auto& buffer = side.buffers[side.receives.size()];
          Request* receive = side.connection->post_receive(buffer, memory_for(side, buffer));
          ASSERT_NE(receive, nullptr);
          side.receives.push_back(receive);
        }
        break;
      default: {
        const bool is_send = random() % 2 == 0;
        auto& requests = is_send ? side.sends : side.receives;
        if (requests.empty()) break;
        const std::size_t i = random() % requests.size();
        if (requests[i] == nullptr) break;
        std::size_t bytes = 0;
        const Outcome outcome = side.connection->test(requests[i], bytes);
        ASSERT_NE(outcome, Outcome::kFailed) << side.connection->error()->what();
        if (outcome == Outcome::kPending) break;
        requests[i] = nullptr;
        --open;
        const auto& wanted = is_send ? side.wanted[i] : sides[1 - s].wanted[i];
        ASSERT_EQ(bytes, wanted.size());
        // Each buffer is its owner's again: nothing is sent from it any more, nor written to it.
        auto& buffer = is_send ? side.sent[i] : side.buffers[i];
        if (!is_send) {
          ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), buffer.begin())) << "message " << i;
          ASSERT_EQ(
              std::count(buffer.begin() + static_cast<std::ptrdiff_t>(bytes), buffer.end(), std::byte{0x5a}),
              static_cast<std::ptrdiff_t>(buffer.size() - bytes));
          ++received[s];
        }
        std::ranges::fill(buffer, std::byte{0xee});
      }
    }
  }
  for (const Side& side : sides)
    for (const auto& buffer : side.buffers)
      ASSERT_EQ(std::ranges::count(buffer, std::byte{0xee}), static_cast<std::ptrdiff_t>(buffer.size()));
}

}  // namespace tombolo::transport::test
