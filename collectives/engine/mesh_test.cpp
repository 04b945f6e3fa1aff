#include "collectives/engine/mesh.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using std::chrono::seconds;

/// Several ranks in one thread, each with a router of its own.
class MeshTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kId = 9;

  std::shared_ptr<transport::Router> router_of(int rank) {
    transport::RouterOptions options = test::options_for("AAAA", rank, 0).router;
    options.secret = test::kTestSecret;
    options.clock = clock_;
    options.log = Log(LogLevel::kWarning, [this](LogLevel, std::string_view text) {
      const std::lock_guard guard(lock_);
      log_ += fmt::format("{}\n", text);
    });
    return std::make_shared<transport::Router>(std::move(options));
  }
  void start(int ranks, std::uint32_t id = kId) {
    for (int rank = 0; rank < ranks; ++rank)
      meshes_.push_back(std::make_unique<Mesh>(router_of(rank), rank, id, seconds(60)));
    introduce();
  }
  void introduce() {
    for (auto& mesh : meshes_) {
      std::vector<Mesh::Peer> peers;
      for (std::size_t i = 0; i < meshes_.size(); ++i)
        peers.push_back({"host" + std::to_string(i), meshes_[i]->endpoint()});
      mesh->set_peers(std::move(peers));
    }
  }
  Mesh& mesh(int rank) { return *meshes_[static_cast<std::size_t>(rank)]; }
  /// Moves the meshes until `done()`, which is not called again once it was true: the test of a request that
  /// is done gives the request back.
  template <typename Done>
  void turn_until(const Done& done) {
    for (const auto deadline = Deadline::after(seconds(60));;) {
      bool came = false;
      std::vector<pollfd> handles;
      for (auto& one : meshes_) {
        came |= one->progress();
        one->append_wait_handles(handles);
      }
      if (done()) return;
      ASSERT_FALSE(deadline.passed()) << log();
      if (!came) ::poll(handles.data(), static_cast<nfds_t>(handles.size()), 20);
    }
  }
  std::string log() {
    const std::lock_guard guard(lock_);
    return log_;
  }

  const Clock* clock_ = &Clock::steady();
  std::mutex lock_;
  std::string log_;
  std::vector<std::unique_ptr<Mesh>> meshes_;
};

TEST_F(MeshTest, MakesConnectionsOnlyWhereTheyAreAskedFor) {
  start(3);
  EXPECT_EQ(mesh(0).open(Traffic::kCollective, 2), nullptr);
  EXPECT_TRUE(mesh(0).opening());
  turn_until([&] { return !mesh(0).opening() && mesh(2).find(Traffic::kCollective, 0) != nullptr; });
  EXPECT_NE(mesh(0).find(Traffic::kCollective, 2), nullptr);
  EXPECT_EQ(mesh(0).open(Traffic::kCollective, 2), mesh(0).find(Traffic::kCollective, 2));
  // It is there for who did not ask for it yet, and nothing else is.
  EXPECT_FALSE(mesh(2).opening());
  EXPECT_EQ(mesh(2).open(Traffic::kCollective, 0), mesh(2).find(Traffic::kCollective, 0));
  EXPECT_FALSE(mesh(2).opening());
  EXPECT_EQ(mesh(0).find(Traffic::kPointToPoint, 2), nullptr);
  EXPECT_EQ(mesh(0).find(Traffic::kCollective, 1), nullptr);
  EXPECT_EQ(mesh(1).find(Traffic::kCollective, 0), nullptr);
}

TEST_F(MeshTest, TheHigherRankWaitsForTheLowerOne) {
  start(2);
  EXPECT_EQ(mesh(1).open(Traffic::kCollective, 0), nullptr);
  EXPECT_TRUE(mesh(1).opening());
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_FALSE(mesh(0).progress());
    EXPECT_FALSE(mesh(1).progress());
  }
  EXPECT_EQ(mesh(0).open(Traffic::kCollective, 1), nullptr);
  turn_until([&] { return !mesh(0).opening() && !mesh(1).opening(); });
  EXPECT_NE(mesh(1).find(Traffic::kCollective, 0), nullptr);
}

TEST_F(MeshTest, CarriesEachKindOfTrafficApart) {
  start(2);
  for (const Traffic traffic : kAllTraffic) {
    mesh(0).open(traffic, 1);
    mesh(1).open(traffic, 0);
  }
  turn_until([&] { return !mesh(0).opening() && !mesh(1).opening(); });
  std::array<std::byte, kAllTraffic.size()> sent{}, got{};
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(10 + i);
  for (const Traffic traffic : kAllTraffic) {
    const auto at = static_cast<std::size_t>(traffic);
    transport::Connection& from = *mesh(0).find(traffic, 1);
    transport::Connection& to = *mesh(1).find(traffic, 0);
    transport::Request* receive = to.post_receive(std::span(got).subspan(at, 1));
    transport::Request* send = from.post_send(std::span(sent).subspan(at, 1));
    std::size_t bytes = 0;
    turn_until([&] {
      from.progress();
      return to.test(receive, bytes) != transport::Outcome::kPending;
    });
    turn_until([&] { return from.test(send, bytes) != transport::Outcome::kPending; });
  }
  EXPECT_EQ(got, sent);
}

TEST_F(MeshTest, DropsConnectionsThatNoneOfItsPeersMakes) {
  start(2);
  // All with the right secret: of another communicator, as the rank itself, as one that does not exist, as
  // traffic of a kind that there is not.
  const auto router = router_of(0);
  const std::uint64_t id = std::uint64_t{kId} << 32;
  std::vector<std::unique_ptr<transport::Connecting>> strangers;
  for (const std::uint64_t label : {std::uint64_t{kId + 1} << 32, id | 1, id | 2, id | 5u << 24}) {
    transport::ConnectOptions options;
    options.label = label;
    strangers.push_back(router->connect(mesh(1).endpoint(), options));
  }
  std::vector<std::unique_ptr<transport::Connection>> made(strangers.size());
  turn_until([&] {
    bool all = true;
    for (std::size_t i = 0; i < strangers.size(); ++i) {
      if (!made[i]) made[i] = strangers[i]->poll();
      all &= made[i] != nullptr;
    }
    return all && log().find("0x905000000") != std::string::npos &&
           log().find("0xa00000000") != std::string::npos && log().find("0x900000001") != std::string::npos &&
           log().find("0x900000002") != std::string::npos;
  });
  EXPECT_EQ(mesh(1).find(Traffic::kCollective, 0), nullptr);
  EXPECT_EQ(mesh(1).find(Traffic::kPointToPoint, 0), nullptr);
  // Its own peer still gets in.
  mesh(0).open(Traffic::kCollective, 1);
  turn_until([&] { return mesh(1).find(Traffic::kCollective, 0) != nullptr; });
}

TEST_F(MeshTest, KeepsTheFirstOfTwoConnectionsFromOneRank) {
  start(2);
  mesh(0).open(Traffic::kCollective, 1);
  turn_until([&] { return mesh(1).find(Traffic::kCollective, 0) != nullptr && !mesh(0).opening(); });
  const transport::Connection* first = mesh(1).find(Traffic::kCollective, 0);
  const auto router = router_of(0);
  transport::ConnectOptions options;
  options.label = std::uint64_t{kId} << 32;
  const auto again = router->connect(mesh(1).endpoint(), options);
  std::unique_ptr<transport::Connection> made;
  turn_until([&] {
    if (!made) made = again->poll();
    return log().find("dropped a second connection from rank 0") != std::string::npos;
  });
  EXPECT_EQ(mesh(1).find(Traffic::kCollective, 0), first);
  EXPECT_EQ(first->error(), nullptr);
}

TEST_F(MeshTest, ALongerDeadlineCountsForConnectionsThatAreAskedForAlready) {
  FakeClock clock;
  clock_ = &clock;
  start(2);
  mesh(1).open(Traffic::kCollective, 0);
  clock.advance(seconds(50));
  mesh(1).set_deadline(seconds(100));
  clock.advance(seconds(40));
  EXPECT_NO_THROW(mesh(1).check_awaited());
  clock.advance(seconds(20));
  EXPECT_THROW(mesh(1).check_awaited(), Error);
  // The rank that connects, too: the other one does not accept so far.
  mesh(0).open(Traffic::kCollective, 1);
  mesh(0).set_deadline(seconds(100));
  clock.advance(seconds(90));
  EXPECT_FALSE(mesh(0).progress());
  EXPECT_FALSE(mesh(0).progress());
  turn_until([&] { return !mesh(0).opening() && !mesh(1).opening(); });
}

TEST_F(MeshTest, AConnectionFailsOnceTheDeadlineHasPassed) {
  FakeClock clock;
  clock_ = &clock;
  start(2);
  mesh(0).open(Traffic::kCollective, 1);
  clock.advance(seconds(61));
  EXPECT_THROW(mesh(0).progress(), Error);
}

TEST_F(MeshTest, DescribesAPeerByWhatItKnows) {
  start(2);
  EXPECT_EQ(mesh(0).describe(Traffic::kCollective, 1), "rank 1 on host host1");
  mesh(0).open(Traffic::kCollective, 1);
  turn_until([&] { return !mesh(0).opening(); });
  EXPECT_EQ(
      mesh(0).describe(Traffic::kCollective, 1).find("rank 1 on host host1 over eth0 -> eth0 (127.0.0.1:"),
      0u)
      << mesh(0).describe(Traffic::kCollective, 1);
}

TEST_F(MeshTest, HasNothingAnyMoreOnceAllIsClosed) {
  start(2);
  mesh(0).open(Traffic::kCollective, 1);
  mesh(0).open(Traffic::kPointToPoint, 1);
  turn_until([&] { return !mesh(0).opening() && mesh(1).find(Traffic::kCollective, 0) != nullptr; });
  mesh(0).close_all();
  EXPECT_EQ(mesh(0).find(Traffic::kCollective, 1), nullptr);
  EXPECT_EQ(mesh(0).open(Traffic::kCollective, 1), nullptr);
  EXPECT_FALSE(mesh(0).progress());
  std::vector<pollfd> handles;
  mesh(0).append_wait_handles(handles);
  EXPECT_TRUE(handles.empty());
  // The peer learns of it.
  transport::Connection& left = *mesh(1).find(Traffic::kCollective, 0);
  std::byte byte{};
  transport::Request* receive = left.post_receive({&byte, 1});
  std::size_t bytes = 0;
  turn_until([&] { return left.test(receive, bytes) == transport::Outcome::kFailed; });
}

TEST_F(MeshTest, APeerThatCannotBeReachedIsAnErrorThatNamesIt) {
  start(2);
  transport::Endpoint nowhere = mesh(1).endpoint();
  nowhere.offers[0].fabric = 12345;
  mesh(0).set_peers({{"host0", mesh(0).endpoint()}, {"host1", nowhere}});
  EXPECT_THROW(mesh(0).open(Traffic::kCollective, 1), Error);
}

}  // namespace
}  // namespace tombolo::collectives
