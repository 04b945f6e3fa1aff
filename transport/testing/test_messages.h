// For this room's tests: messages that are carried and compared, in the ways in which several backends are
// tested.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "base/randomized_test.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {

inline void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

inline std::string why_failed(const Connection& connection) {
  return connection.error() != nullptr ? connection.error()->what() : "no failure";
}

/// One message, compared byte by byte; both ends are progressed.
inline void expect_carried(Connection& from, Connection& to, std::span<const std::byte> data,
                           std::span<std::byte> buffer, Memory* from_memory = nullptr,
                           Memory* to_memory = nullptr) {
  Request* receive = to.post_receive(buffer, to_memory);
  Request* send = from.post_send(data, from_memory);
  std::size_t bytes = 0;
  ASSERT_EQ(finish(to, receive, bytes, &from), Outcome::kDone) << why_failed(to);
  ASSERT_EQ(bytes, data.size());
  ASSERT_EQ(finish(from, send, bytes, &to), Outcome::kDone) << why_failed(from);
  ASSERT_TRUE(std::equal(data.begin(), data.end(), buffer.begin()));
}

/// Tests until done or failed, as a caller without a core to spare waits.
inline Outcome finish_asleep(Connection& connection, Request* request, std::size_t& bytes) {
  for (auto deadline = soon(); !deadline.passed();) {
    const Outcome outcome = connection.test(request, bytes);
    if (outcome != Outcome::kPending) return outcome;
    std::vector<pollfd> handles;
    connection.append_wait_handles(handles);
    EXPECT_GE(::poll(handles.data(), handles.size(), deadline.poll_milliseconds()), 0);
  }
  ADD_FAILURE() << "slept past the deadline";
  return Outcome::kPending;
}

/// Messages both ways at once, most of them small, between two threads that sleep where they wait.
inline void expect_random_messages_both_ways(const Pair& pair, int rounds, std::size_t middling,
                                             std::size_t largest) {
  const unsigned seed = test_seed();
  const auto size_of = [&](std::mt19937_64& random) {
    const std::uint64_t word = random();
    return static_cast<std::size_t>(word / 8 % (word % 8 == 0 ? largest : word % 3 == 0 ? middling : 80));
  };
  const auto run = [&](Connection& connection, std::uint64_t send_seed, std::uint64_t receive_seed) {
    std::mt19937_64 sending(send_seed), receiving(receive_seed);
    for (int round = 0; round < rounds; ++round) {
      const auto out = random_data(sending, size_of(sending));
      const auto wanted = random_data(receiving, size_of(receiving));
      std::vector<std::byte> in(wanted.size() + 9);
      Request* receive = connection.post_receive(in);
      Request* send = connection.post_send(out);
      ASSERT_TRUE(receive != nullptr && send != nullptr);
      std::size_t bytes = 0;
      ASSERT_EQ(finish_asleep(connection, receive, bytes), Outcome::kDone) << why_failed(connection);
      ASSERT_EQ(bytes, wanted.size()) << "round " << round;
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), in.begin())) << "round " << round;
      ASSERT_EQ(finish_asleep(connection, send, bytes), Outcome::kDone) << why_failed(connection);
    }
  };
  std::thread other([&] { run(*pair.second, seed + 1, seed); });
  run(*pair.first, seed, seed + 1);
  other.join();
}

/// Sends are done, then their end closes: all of them arrive, into receives that were posted before and
/// after. `large`: of the one message that needs its receive before it can be sent.
inline void expect_sent_messages_outlive_their_sender(Pair pair, std::size_t large) {
  std::mt19937_64 random(test_seed());
  constexpr std::size_t kEarlyReceives = 3;  // up to the large one
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t size : {std::size_t{10}, std::size_t{4096}, large, std::size_t{0}, std::size_t{7}})
    sent.push_back(random_data(random, size));
  std::vector<std::vector<std::byte>> buffers(sent.size() + 1, std::vector<std::byte>(2 * large));
  std::vector<Request*> receives, sends;
  for (std::size_t i = 0; i < kEarlyReceives; ++i) receives.push_back(pair.second->post_receive(buffers[i]));
  for (const auto& message : sent) sends.push_back(pair.first->post_send(message));
  std::size_t bytes = 0;
  for (Request* send : sends)
    ASSERT_EQ(finish(*pair.first, send, bytes, pair.second.get()), Outcome::kDone) << why_failed(*pair.first);
  pair.first.reset();
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (i >= receives.size()) receives.push_back(pair.second->post_receive(buffers[i]));
    ASSERT_EQ(finish(*pair.second, receives[i], bytes), Outcome::kDone)
        << i << ": " << why_failed(*pair.second);
    ASSERT_EQ(bytes, sent[i].size());
    ASSERT_TRUE(std::equal(sent[i].begin(), sent[i].end(), buffers[i].begin()));
  }
  Request* late = pair.second->post_receive(buffers.back());
  ASSERT_EQ(finish(*pair.second, late, bytes), Outcome::kFailed);
  expect_in(why_failed(*pair.second), "the peer closed the connection");
}

/// Registered memory, sent from and received into at several places.
inline void expect_registered_memory_is_used(const Pair& pair, std::mt19937_64& random) {
  const std::size_t total = std::size_t{3} << 20;
  auto data = random_data(random, total);
  std::vector<std::byte> buffer(total);
  auto from = pair.first->register_memory(data, MemoryKind::kHost);
  auto into = pair.second->register_memory(buffer, MemoryKind::kHost);
  auto again = pair.second->register_memory(buffer, MemoryKind::kHost);
  into.reset();  // the other registration of the same memory still holds
  for (std::size_t begin : {std::size_t{0}, std::size_t{1} << 20, std::size_t{2'000'001}}) {
    for (std::size_t size : {std::size_t{100}, std::size_t{1'000'001}}) {
      size = std::min(size, total - begin);
      expect_carried(*pair.first, *pair.second, std::span(data).subspan(begin, size),
                     std::span(buffer).subspan(begin, size), from.get(), again.get());
    }
  }
}

inline void expect_a_buffer_outside_its_registration_is_refused(const Pair& pair) {
  std::vector<std::byte> memory(100'000);
  auto registered = pair.first->register_memory(std::span(memory).first(50'000), MemoryKind::kHost);
  Request* receive = pair.first->post_receive(std::span(memory).subspan(40'000, 20'000), registered.get());
  std::size_t bytes = 0;
  EXPECT_EQ(finish(*pair.first, receive, bytes), Outcome::kFailed);
  expect_in(why_failed(*pair.first), "not within the memory registered");
  Request* other = pair.second->post_receive(memory);
  EXPECT_EQ(finish(*pair.second, other, bytes), Outcome::kFailed);
  expect_in(why_failed(*pair.second), "a failure of its own");
}

}  // namespace tombolo::transport::test
