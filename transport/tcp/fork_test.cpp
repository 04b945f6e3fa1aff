// What forks of a process with connections must not do to these.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/forked_child_test.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Shared memory joins processes of one host.
RouterOptions options_for(const std::string& transport, const std::string& name) {
  const std::string host = transport == "shm" ? "here" : name;
  RouterOptions options = transport == "ucx" ? ucx_router_options(host, "tcp") : router_options(host);
  options.policy.transports = {transport};
  options.tcp.idle_timeout = seconds(3);
  return options;
}
RouterOptions tcp_options(const std::string& host) {
  return options_for("tcp", host);
}

void send_one(Connection& from, Connection& to) {
  const std::vector<std::byte> sent(1000, std::byte{7});
  std::vector<std::byte> got(1000);
  Request* send = from.post_send(sent);
  Request* receive = to.post_receive(got);
  std::size_t bytes = 0;
  ASSERT_EQ(finish(to, receive, bytes, &from), Outcome::kDone);
  ASSERT_EQ(finish(from, send, bytes, &to), Outcome::kDone);
  EXPECT_EQ(got, sent);
}

class ForkedCopies : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) != "ucx") return;
    if (const std::string why = why_no_ucx(); !why.empty()) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, ForkedCopies, testing::Values("tcp", "shm", "ucx"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(ForkedCopies, AChildThatEndsThemLeavesTheConnectionsAlone) {
  Router left(options_for(GetParam(), "left")), right(options_for(GetParam(), "right"));
  auto listener = right.listen();
  Pair pair = connect_pair(left, *listener);
  ASSERT_TRUE(pair.first && pair.second);
  send_one(*pair.first, *pair.second);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a child that waits for ever must not hold up the parent, which waits for it
    pair.first.reset();
    pair.second.reset();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  pair.first->progress();  // before anything new covers what the child might have written
  pair.second->progress();
  send_one(*pair.first, *pair.second);
  send_one(*pair.second, *pair.first);
}

TEST_P(ForkedCopies, AChildThatEndsTheLastOfThemWaitsForNoThreadOfItsParent) {
  Pair pair = connect_routers(options_for(GetParam(), "left"), options_for(GetParam(), "right"));
  ASSERT_TRUE(pair.first && pair.second);
  send_one(*pair.first, *pair.second);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    pair = {};
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  send_one(*pair.first, *pair.second);
}

// Its exit handlers and the destructors of static objects find what the process had: they must neither say
// goodbye on the parent's streams nor wait for threads that the child does not have.
TEST_P(ForkedCopies, AChildThatExitsAsAProgramDoesLeavesTheConnectionsAlone) {
  const auto options = [](const std::string& host) {
    RouterOptions made = options_for(GetParam(), host);
    made.helpers = nullptr;  // those of the process, which end with it
    return made;
  };
  Router left(options("left")), right(options("right"));
  auto listener = right.listen();
  static Pair pair;
  pair = connect_pair(left, *listener);
  ASSERT_TRUE(pair.first && pair.second);
  send_one(*pair.first, *pair.second);
  expect_forked_child_exits();
  pair.first->progress();
  pair.second->progress();
  for (int i = 0; i < 3; ++i) {
    send_one(*pair.first, *pair.second);
    send_one(*pair.second, *pair.first);
  }
  pair = {};
}

TEST(Fork, AChildIsToldToMakeARouterOfItsOwn) {
  Router router(tcp_options("here"));
  auto listener = router.listen();
  const pid_t child = fork();
  if (child == 0) {
    int refused = 0;
    for (const auto& use :
         std::vector<std::function<void()>>{[&] { (void)listener->accept(); }, [&] { (void)router.listen(); },
                                            [&] { (void)router.connect(listener->endpoint(), {}); }}) {
      try {
        use();
      } catch (const Error& error) {
        refused += error.cause() == Cause::kInvalidUsage &&
                   std::string(error.what()).find("after fork()") != std::string::npos;
      }
    }
    Router own(tcp_options("here"));
    auto connecting = own.connect(own.listen()->endpoint(), {});
    _exit(refused == 3 && connecting ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Fork, ADeadProcessIsNoticedThoughItsChildLives) {
  Router router(tcp_options("here"));
  auto listener = router.listen();
  const std::vector<std::byte> endpoint = listener->endpoint().encode();
  int alive[2];  // its reading end sees the end of the file once no process holds the other
  ASSERT_EQ(pipe(alive), 0);
  const pid_t peer = fork();
  if (peer == 0) {
    Router there(tcp_options("there"));
    auto connecting = there.connect(Endpoint::decode(endpoint), {});
    std::unique_ptr<Connection> connection;
    for (auto deadline = soon(); !connection && !deadline.passed();) {
      connection = connecting->poll();
      if (!connection) wait_on(*connecting);
    }
    std::vector<std::byte> one(1);
    Request* receive = connection->post_receive(one);
    std::size_t bytes = 0;
    for (auto deadline = soon(); connection->test(receive, bytes) == Outcome::kPending && !deadline.passed();)
      wait_on(*connection);
    if (fork() == 0) {
      // It holds what its parent had opened until the test has seen the parent's end.
      char ignored = 0;
      ::close(alive[1]);
      [[maybe_unused]] const ssize_t end = ::read(alive[0], &ignored, 1);
      _exit(0);
    }
    kill(getpid(), SIGKILL);
  }
  ASSERT_GT(peer, 0);
  std::unique_ptr<Connection> connection;
  for (auto deadline = soon(); !connection && !deadline.passed();) {
    connection = listener->accept();
    if (!connection) wait_on(*listener);
  }
  ASSERT_TRUE(connection);
  std::vector<std::byte> one(1), never(1);
  std::size_t bytes = 0;
  Request* send = connection->post_send(one);
  Request* receive = connection->post_receive(never);
  EXPECT_EQ(finish(*connection, send, bytes, nullptr), Outcome::kDone);
  int status = 0;
  ASSERT_EQ(waitpid(peer, &status, 0), peer);
  // Its kernel says at once that it is gone. Silence would be noticed only by keepalive.
  EXPECT_EQ(finish(*connection, receive, bytes, nullptr), Outcome::kFailed);
  ASSERT_NE(connection->error(), nullptr);
  EXPECT_NE(std::string(connection->error()->what()).find("did its process die?"), std::string::npos)
      << connection->error()->what();
  ::close(alive[0]);
  ::close(alive[1]);
}

}  // namespace
}  // namespace tombolo::transport::test
