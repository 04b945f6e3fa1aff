// Messages over real verbs, beyond the contract of all transports.
#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::expect_carried;
using test::finish;
using test::random_data;

TEST_F(Verbs, AMessageLongerThanTheNicCarriesAtOnceArrivesWhole) {
  // Soft-RoCE takes 8 MiB at once: this one takes several work requests for each of its parts.
  RdmaOptions options;
  options.queue_pairs = 2;
  auto pair = connect(1, options);
  auto data = random_data(random_, (20 << 20) + 12345);
  std::vector<std::byte> buffer(data.size() + 1);
  expect_carried(*pair.first, *pair.second, data, buffer);
}

TEST_F(Verbs, WhatCountedAsSentArrivesThoughTheSenderClosedSince) {
  test::expect_sent_messages_outlive_their_sender(connect(), 100'000);
}

TEST_F(Verbs, ManyMessagesEachWayDoNotExhaustQueuesOrCredits) {
  RdmaOptions options;
  options.queue_pairs = 2;
  auto pair = connect(2, options);
  // Small and large mixed, far more than any queue has entries, neither end ahead of the other for long.
  constexpr int kMessages = 1500;
  std::vector<std::byte> small(64, std::byte{5}), large(9000, std::byte{6});
  Connection* ends[2] = {pair.first.get(), pair.second.get()};
  struct Flow {
    std::vector<Request*> requests;
    std::vector<std::vector<std::byte>> buffers =
        std::vector<std::vector<std::byte>>(64, std::vector<std::byte>(10'000));
    int posted = 0, done = 0;
  };
  Flow sending[2], receiving[2];
  auto deadline = test::soon();
  while (!deadline.passed()) {
    bool all = true;
    for (int e = 0; e < 2; ++e) {
      for (bool send : {true, false}) {
        Flow& flow = send ? sending[e] : receiving[e];
        all &= flow.done == kMessages;
        while (flow.posted < kMessages && flow.posted - flow.done < 60) {
          const auto at = static_cast<std::size_t>(flow.posted) % 64;
          Request* request = send ? ends[e]->post_send(flow.posted % 3 == 0 ? large : small)
                                  : ends[e]->post_receive(flow.buffers[at]);
          if (request == nullptr) break;
          flow.requests.push_back(request);
          ++flow.posted;
        }
        std::size_t bytes = 0;
        while (flow.done < flow.posted) {
          const Outcome outcome = ends[e]->test(flow.requests[static_cast<std::size_t>(flow.done)], bytes);
          ASSERT_NE(outcome, Outcome::kFailed) << ends[e]->error()->what();
          if (outcome == Outcome::kPending) break;
          ASSERT_EQ(bytes, (flow.done % 3 == 0 ? large : small).size()) << "message " << flow.done;
          ++flow.done;
        }
      }
    }
    if (all) break;
  }
  for (int e = 0; e < 2; ++e) {
    EXPECT_EQ(sending[e].done, kMessages);
    EXPECT_EQ(receiving[e].done, kMessages);
  }
  EXPECT_EQ(pair.first->statistics().messages_received, static_cast<std::uint64_t>(kMessages));
  EXPECT_EQ(pair.first->statistics().live_streams, 5u) << "one for control, two on each pair of NICs";
}

TEST_F(Verbs, OneEndMayRunFarAheadOfTheOther) {
  auto pair = connect();
  // Sends without receives, both ways, then the receives: nothing may wait for the other for ever.
  std::vector<std::byte> small(100, std::byte{1}), large(50'000, std::byte{2});
  std::vector<Request*> sends[2], receives[2];
  Connection* ends[2] = {pair.first.get(), pair.second.get()};
  for (int i = 0; i < 200; ++i) {
    for (int e = 0; e < 2; ++e) sends[e].push_back(ends[e]->post_send(i % 50 == 49 ? large : small));
  }
  for (int i = 0; i < 2000; ++i) {
    for (Connection* end : ends) end->progress();
  }
  std::vector<std::byte> buffer(60'000);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    for (int e = 0; e < 2; ++e) {
      Request* receive = ends[e]->post_receive(buffer);
      ASSERT_EQ(finish(*ends[e], receive, bytes, ends[1 - e]), Outcome::kDone);
      ASSERT_EQ(bytes, i % 50 == 49 ? large.size() : small.size());
    }
  }
  for (int e = 0; e < 2; ++e) {
    for (Request* send : sends[e]) ASSERT_EQ(finish(*ends[e], send, bytes, ends[1 - e]), Outcome::kDone);
  }
}

}  // namespace
}  // namespace tombolo::transport
