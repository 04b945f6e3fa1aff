#include "collectives/engine/point_to_point.h"

#include <gtest/gtest.h>

#include <random>

#include "base/randomized_test.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using std::chrono::seconds;

std::byte* bytes_of(std::vector<int>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

template <typename Action>
Cause cause_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.cause();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Cause::kInternal;
}

// ---- a rank alone

TEST(MessagesToOneself, MatchInTheOrderInWhichTheyWereStarted) {
  PointToPoint messages(nullptr, 0);
  std::vector<int> out{1, 2}, in{0, 0};
  const Work first_send = messages.start(true, bytes_of(out), sizeof(int), 0);
  const Work second_send = messages.start(true, bytes_of(out) + sizeof(int), sizeof(int), 0);
  EXPECT_FALSE(messages.progress()) << "there is no receive yet";
  const Work first = messages.start(false, bytes_of(in), sizeof(int), 0);
  EXPECT_TRUE(messages.progress());
  EXPECT_TRUE(messages.done(first_send));
  EXPECT_TRUE(messages.done(first));
  EXPECT_FALSE(messages.done(second_send));
  EXPECT_FALSE(messages.idle());
  const Work second = messages.start(false, bytes_of(in) + sizeof(int), sizeof(int), 0);
  EXPECT_TRUE(messages.progress());
  EXPECT_TRUE(messages.done(second_send));
  EXPECT_TRUE(messages.done(second));
  EXPECT_EQ(in, out);
  EXPECT_TRUE(messages.idle());
}

TEST(MessagesToOneself, OfNoBytesAreDoneAtOnce) {
  PointToPoint messages(nullptr, 0);
  const Work work = messages.start(false, nullptr, 0, 0);
  EXPECT_TRUE(messages.done(work));
  EXPECT_TRUE(messages.idle());
  messages.redeem(work);
}

TEST(MessagesToOneself, OfDifferentSizesFailAndCanBeTakenBack) {
  PointToPoint messages(nullptr, 0);
  std::vector<int> out{1, 2}, in{0, 0};
  const Work send = messages.start(true, bytes_of(out), 2 * sizeof(int), 0);
  const Work receive = messages.start(false, bytes_of(in), sizeof(int), 0);
  messages.progress();
  ASSERT_TRUE(messages.failure());
  EXPECT_EQ(messages.failure()->text, "it sends itself 8 bytes but expects 4");
  messages.take_back(send);
  messages.take_back(receive);
  EXPECT_FALSE(messages.failure());
  EXPECT_TRUE(messages.idle());
  EXPECT_EQ(in[0], 0);
  // And the next ones are fine.
  const Work next_send = messages.start(true, bytes_of(out), 2 * sizeof(int), 0);
  const Work next = messages.start(false, bytes_of(in), 2 * sizeof(int), 0);
  messages.progress();
  EXPECT_TRUE(messages.done(next_send) && messages.done(next));
  EXPECT_EQ(in, out);
}

TEST(Work, IsGoodForOneRedemption) {
  PointToPoint messages(nullptr, 0);
  const Work first = messages.start(true, nullptr, 0, 0);
  messages.redeem(first);
  EXPECT_EQ(cause_of([&] { messages.redeem(first); }), Cause::kInvalidUsage);
  EXPECT_EQ(cause_of([&] { messages.done(first); }), Cause::kInvalidUsage);
  // Its place is used again, and the old one does not stand for the new operation.
  std::vector<int> data{1};
  const Work second = messages.start(true, bytes_of(data), sizeof(int), 0);
  EXPECT_EQ(second.index, first.index);
  EXPECT_EQ(cause_of([&] { messages.done(first); }), Cause::kInvalidUsage);
  EXPECT_FALSE(messages.done(second));
  EXPECT_EQ(cause_of([&] {
              messages.done(Work{WorkKind::kMessage, 1000, 0});
            }),
            Cause::kInvalidUsage)
      << "of another communicator";
  const PointToPoint::Facts facts = messages.facts(second);
  EXPECT_TRUE(facts.sending);
  EXPECT_EQ(facts.peer, 0);
  EXPECT_EQ(facts.bytes, sizeof(int));
}

// ---- two ranks, moved by one thread

class MessagesOfTwo : public testing::Test {
 protected:
  MessagesOfTwo() {
    for (int rank = 0; rank < 2; ++rank) {
      transport::RouterOptions options = test::options_for("AA", rank, 0).router;
      options.secret = test::kTestSecret;
      meshes_.push_back(std::make_unique<Mesh>(std::make_shared<transport::Router>(std::move(options)), rank,
                                               1, seconds(60)));
    }
    for (auto& mesh : meshes_)
      mesh->set_peers({{"host0", meshes_[0]->endpoint()}, {"host1", meshes_[1]->endpoint()}});
    for (int rank = 0; rank < 2; ++rank)
      ranks_.push_back(std::make_unique<PointToPoint>(meshes_[static_cast<std::size_t>(rank)].get(), rank));
  }
  template <typename Done>
  void turn_until(const Done& done) {
    for (const auto deadline = Deadline::after(seconds(60)); !done();) {
      ASSERT_FALSE(deadline.passed());
      bool moved = false;
      std::vector<pollfd> handles;
      for (std::size_t i = 0; i < 2; ++i) {
        moved |= meshes_[i]->progress();
        moved |= ranks_[i]->progress();
        moved |= ranks_[i]->progress_connections();
        meshes_[i]->append_wait_handles(handles);
        ranks_[i]->append_wait_handles(handles);
      }
      if (!moved && !done()) ::poll(handles.data(), static_cast<nfds_t>(handles.size()), 20);
    }
  }

  std::vector<std::unique_ptr<Mesh>> meshes_;
  std::vector<std::unique_ptr<PointToPoint>> ranks_;
};

TEST_F(MessagesOfTwo, ManyBothWaysArriveInOrderThoughFewAreWithTheConnectionAtOnce) {
  std::mt19937 random(test_seed());
  constexpr std::size_t kMessages = 60;
  struct Message {
    std::vector<std::byte> out, in;
    Work send, receive;
  };
  std::vector<Message> all[2];
  for (std::size_t from = 0; from < 2; ++from) {
    for (std::size_t i = 0; i < kMessages; ++i) {
      Message one;
      one.out.resize(random() % 5 == 0 ? random() % 200'000 : random() % 100);
      for (std::byte& byte : one.out) byte = static_cast<std::byte>(random());
      one.in.resize(one.out.size());
      all[from].push_back(std::move(one));
    }
  }
  for (std::size_t from = 0; from < 2; ++from) {
    for (Message& one : all[from])
      one.send = ranks_[from]->start(true, one.out.data(), one.out.size(), static_cast<int>(1 - from));
    for (Message& one : all[from])
      one.receive = ranks_[1 - from]->start(false, one.in.data(), one.in.size(), static_cast<int>(from));
  }
  turn_until([&] { return ranks_[0]->idle() && ranks_[1]->idle(); });
  for (std::size_t from = 0; from < 2; ++from) {
    EXPECT_FALSE(ranks_[from]->failure());
    for (std::size_t i = 0; i < kMessages; ++i) {
      Message& one = all[from][i];
      EXPECT_TRUE(ranks_[from]->done(one.send) && ranks_[1 - from]->done(one.receive));
      ASSERT_TRUE(one.in == one.out) << "message " << i << " from " << from;
      ranks_[from]->redeem(one.send);
      ranks_[1 - from]->redeem(one.receive);
    }
  }
}

TEST_F(MessagesOfTwo, AShorterMessageThanExpectedNamesThePeerAndBothSizes) {
  std::vector<int> out{1}, in{0, 0};
  ranks_[0]->start(true, bytes_of(out), sizeof(int), 1);
  ranks_[1]->start(false, bytes_of(in), 2 * sizeof(int), 0);
  turn_until([&] { return ranks_[1]->failure().has_value(); });
  EXPECT_EQ(ranks_[1]->failure()->peer, 0);
  EXPECT_EQ(ranks_[1]->failure()->text, "it sent 4 bytes where 8 were expected");
}

TEST_F(MessagesOfTwo, APeerThatClosesItsConnectionFailsTheReceive) {
  std::vector<int> in{0};
  meshes_[0]->open(Traffic::kPointToPoint, 1);
  ranks_[1]->start(false, bytes_of(in), sizeof(int), 0);
  turn_until(
      [&] { return meshes_[1]->find(Traffic::kPointToPoint, 0) != nullptr && !meshes_[0]->opening(); });
  meshes_[0]->close_all();
  turn_until([&] { return ranks_[1]->failure().has_value(); });
  EXPECT_EQ(ranks_[1]->failure()->peer, 0);
  EXPECT_NE(ranks_[1]->failure()->text.find("closed the connection"), std::string::npos)
      << ranks_[1]->failure()->text;
}

TEST_F(MessagesOfTwo, TheLastOfAPeerThatEndsRightBehindItArrives) {
  std::vector<int> out{7}, in{0};
  const Work receive = ranks_[1]->start(false, bytes_of(in), sizeof(int), 0);
  meshes_[0]->open(Traffic::kPointToPoint, 1);
  turn_until(
      [&] { return meshes_[1]->find(Traffic::kPointToPoint, 0) != nullptr && !meshes_[0]->opening(); });
  ranks_[1]->progress();  // the receive is posted
  const Work send = ranks_[0]->start(true, bytes_of(out), sizeof(int), 1);
  while (!ranks_[0]->done(send)) ranks_[0]->progress();
  meshes_[0]->close_all();
  // What a rank does that is about to sleep.
  for (const auto deadline = Deadline::after(seconds(60)); !ranks_[1]->done(receive);) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_FALSE(ranks_[1]->failure()) << ranks_[1]->failure()->text;
    if (meshes_[1]->find(Traffic::kPointToPoint, 0)->error() == nullptr) {
      std::vector<pollfd> handles;
      ranks_[1]->append_wait_handles(handles);
      ::poll(handles.data(), static_cast<nfds_t>(handles.size()), 20);
    }
    ranks_[1]->progress_connections();
  }
  EXPECT_EQ(in, out);
}

// The closing message of a rank that leaves has no bytes, which no other message has.
TEST_F(MessagesOfTwo, ARankThatHasLeftIsNamedSo) {
  std::vector<int> in{0};
  ranks_[1]->start(false, bytes_of(in), sizeof(int), 0);
  meshes_[0]->open(Traffic::kPointToPoint, 1);
  turn_until([&] { return meshes_[0]->find(Traffic::kPointToPoint, 1) != nullptr; });
  transport::Request* closing = meshes_[0]->find(Traffic::kPointToPoint, 1)->post_send({});
  ASSERT_NE(closing, nullptr);
  turn_until([&] { return ranks_[1]->failure().has_value(); });
  EXPECT_EQ(ranks_[1]->failure()->text, "it has left the communicator");
}

}  // namespace
}  // namespace tombolo::collectives
