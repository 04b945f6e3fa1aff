#include "transport/rdma/connection_set_up.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::rdma {
namespace {

using test::PretendedVerbs;

class RdmaSetUp : public testing::Test {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    live_ = verbs_.live();
  }
  void TearDown() override {
    EXPECT_EQ(verbs_.live(), live_) << "all that was made is given back";
    verbs_.reset(1);
  }
  /// What each end fails with; both are polled until both are over.
  std::pair<std::string, std::string> failures(const test::PretendedFabric& fabric,
                                               const RdmaOptions& options = test::pretended_options()) {
    auto sockets = test::local_pair();
    std::unique_ptr<ConnectionSetUp> ends[2];
    std::string texts[2];
    bool over[2] = {};
    const auto poll = [&](std::size_t i) {
      try {
        if (!ends[i])
          ends[i] =
              fabric.set_up(std::move(i == 0 ? sockets.first : sockets.second), i == 0, options, clock_);
        if (ends[i]->poll()) {
          texts[i] = "connected";
          over[i] = true;
        }
      } catch (const Error& error) {
        texts[i] = error.what();
        over[i] = true;
      }
      if (over[i]) ends[i].reset();  // which closes the channel
    };
    for (const auto deadline = test::soon(); !(over[0] && over[1]);) {
      if (deadline.passed()) {
        ADD_FAILURE() << "no end: " << texts[0] << " / " << texts[1];
        break;
      }
      for (std::size_t i = 0; i < 2; ++i)
        if (!over[i]) poll(i);
      clock_.advance(std::chrono::milliseconds(10));
    }
    return {texts[0], texts[1]};
  }

  FakeClock clock_;
  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  std::size_t live_ = 0;
};

TEST_F(RdmaSetUp, UsesTheNicsThatTheConnectingEndOffersAndTheLesserOfBothOptions) {
  const test::PretendedFabric fabric(2);
  auto pair = fabric.connect(test::pretended_options(3, 4096), test::pretended_options(1, 100));
  ASSERT_TRUE(pair.first && pair.second);
  // A control pair, and three for payload over each pair of NICs: the connecting end says how many.
  EXPECT_EQ(pair.first->statistics().live_streams, 7u);
  EXPECT_EQ(pair.second->statistics().live_streams, 7u);
  EXPECT_EQ(pair.first->route().local_nic, "nic0");
  std::mt19937_64 random(test_seed());
  for (const std::size_t size : {0, 100, 101, 70'000, 1'000'000}) {
    const auto data = test::random_data(random, size);
    std::vector<std::byte> buffer(size);
    test::expect_carried(*pair.first, *pair.second, data, buffer);
    test::expect_carried(*pair.second, *pair.first, data, buffer);
  }
}

// Each end says it of what it sends itself.
TEST_F(RdmaSetUp, TheTrafficClassIsThatOfAllItsQueuePairs) {
  using Classes = std::multiset<std::pair<std::string, int>>;
  const test::PretendedFabric fabric(2);
  RdmaOptions near = test::pretended_options(2), far = near;
  {
    const auto pair = fabric.connect(near, far);
    EXPECT_EQ(verbs_.traffic_classes().size(), 10U);
    for (const auto& [device, traffic_class] : verbs_.traffic_classes())
      EXPECT_EQ(traffic_class, 0) << device;
  }
  near.traffic_class = 0x6a;
  far.traffic_class = 255;
  const auto pair = fabric.connect(near, far);
  Classes expected;
  for (const auto& [device, count, traffic_class] : {std::tuple{0U, 3, 0x6a},
                                                     {1U, 2, 0x6a},
                                                     {2U, 3, 255},
                                                     {3U, 2, 255}})  // the first NIC's has one for control
    for (int i = 0; i < count; ++i) expected.emplace(PretendedVerbs::name(device), traffic_class);
  EXPECT_EQ(verbs_.traffic_classes(), expected);
}

TEST_F(RdmaSetUp, GoesOnWithTheNicsThatTheOtherEndHas) {
  test::PretendedFabric fabric(2);
  fabric.right = std::make_shared<test::PretendedHost>(2, 1);
  auto pair = fabric.connect(test::pretended_options(2));
  ASSERT_TRUE(pair.first && pair.second);
  EXPECT_EQ(pair.first->statistics().live_streams, 3u);
  std::swap(fabric.left, fabric.right);
  pair = fabric.connect(test::pretended_options(2));
  ASSERT_TRUE(pair.first && pair.second);
  EXPECT_EQ(pair.first->statistics().live_streams, 3u);
}

TEST_F(RdmaSetUp, WithoutAnyNicIsRefusedWithTheReasonOfTheLast) {
  {
    test::PretendedFabric fabric(1);
    fabric.right = std::make_shared<test::PretendedHost>(2, 0);
    const auto [near, far] = failures(fabric);
    test::expect_in(near, "the peer says: no usable RDMA NIC here has the address nic0");
    test::expect_in(far, "no usable RDMA NIC here has the address nic0");
  }
  {
    test::PretendedFabric fabric(1);
    fabric.left = std::make_shared<test::PretendedHost>(0, 0);
    const auto [near, far] = failures(fabric);
    test::expect_in(near, "no usable RDMA NIC here has the address nic0");
    test::expect_in(far, "the peer says: no usable RDMA NIC here has the address nic0");
  }
}

TEST_F(RdmaSetUp, WhatADeviceRefusesBothEndsAreTold) {
  const test::PretendedFabric fabric(1);
  // The accepting end makes its queue pairs first, then the connecting one.
  for (const int after : {0, 2}) {
    verbs_.refuse("create_qp", ENOMEM, after);
    const auto [near, far] = failures(fabric);
    EXPECT_TRUE(verbs_.refused_all());
    test::expect_in(near, "create a queue pair");
    test::expect_in(far, "create a queue pair");
    test::expect_in(after == 0 ? near : far, "the peer says: ");
  }
  verbs_.refuse("post_recv", ENOMEM, 70);
  auto [near, far] = failures(fabric);
  test::expect_in(near, "post the first receives");
  test::expect_in(far, "post the first receives");
  verbs_.refuse("post_send", EIO);
  std::tie(near, far) = failures(fabric);
  test::expect_in(near, "post a test write");
  test::expect_in(far, "post a test write");
}

TEST_F(RdmaSetUp, AWayThatCarriesNothingIsFoundByItsTest) {
  const test::PretendedFabric fabric(1);
  verbs_.silence();
  const auto [near, far] = failures(fabric);
  test::expect_in(near + far, "a test write over RDMA device pretended");
  EXPECT_EQ(near.find("connected"), std::string::npos) << near;
  EXPECT_EQ(far.find("connected"), std::string::npos) << far;
}

TEST_F(RdmaSetUp, APeerOfAnotherKindOfNetworkIsRefusedBeforeAnyTry) {
  const test::PretendedFabric fabric(1);
  auto sockets = test::local_pair();
  const auto far = fabric.set_up(std::move(sockets.second), false, test::pretended_options());
  SetUpMessage offer;
  offer.kind = SetUpMessage::Kind::kOffer;
  PortFacts port = test::pretended_port(fabric.left->device(0), "ib0").facts;
  port.kind = topology::NicKind::kInfiniBand;
  offer.nic_pairs = {{port, "nic0", 0}};
  const auto bytes = offer.encode();
  ASSERT_EQ(send(sockets.first.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  try {
    far->poll();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported);
    test::expect_in(error.what(), "the peer's ib0 is infiniband");
  }
}

TEST_F(RdmaSetUp, AnAnswerThatDoesNotFitTheOfferIsRefused) {
  const test::PretendedFabric fabric(1);
  const PortFacts port = test::pretended_port(fabric.right->device(0), "nic0").facts;
  const auto refusal_of = [&](const auto& change) -> std::string {
    auto sockets = test::local_pair();
    const auto near = fabric.set_up(std::move(sockets.first), true, test::pretended_options(2));
    EXPECT_EQ(near->poll(), nullptr);
    SetUpMessage answer;
    answer.kind = SetUpMessage::Kind::kAnswer;
    answer.queue_pairs_per_nic_pair = 2;
    answer.kept[0] = true;
    answer.nic_pairs = {{port, "", 1}};
    answer.queue_pairs.resize(3);
    change(answer);
    const auto bytes = answer.encode();
    EXPECT_EQ(send(sockets.second.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    try {
      near->poll();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote) << error.what();
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal_of([](SetUpMessage&) {}), "taken");
  test::expect_in(refusal_of([](SetUpMessage& answer) {
                    answer.queue_pairs_per_nic_pair = 1;
                    answer.queue_pairs.resize(2);
                  }),
                  "the peer answers 1 offered NIC pairs with 1");
}

TEST_F(RdmaSetUp, ASleepEndsOnceTheTestIsOver) {
  const test::PretendedFabric fabric(2);
  auto sockets = test::local_pair();
  const auto near = fabric.set_up(std::move(sockets.first), true, test::pretended_options(2));
  const auto far = fabric.set_up(std::move(sockets.second), false, test::pretended_options(2));
  std::unique_ptr<Connection> made[2];
  for (const auto deadline = test::soon(); !(made[0] && made[1]);) {
    ASSERT_FALSE(deadline.passed());
    if (!made[0]) made[0] = near->poll();
    if (!made[1]) made[1] = far->poll();
    std::vector<pollfd> handles;
    if (!made[0]) near->append_wait_handles(handles);
    if (!made[1]) far->append_wait_handles(handles);
    if (handles.empty()) break;
    ASSERT_GT(::poll(handles.data(), handles.size(), deadline.poll_milliseconds()), 0) << "slept through it";
  }
}

}  // namespace
}  // namespace tombolo::transport::rdma
