// That a peer whose process is killed is noticed and named.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::expect_in;
using test::finish;
using test::rdma_router_options;

TEST_F(Verbs, AKilledPeerIsNoticedAtOnceAndNamed) {
  Router right(rdma_router_options(1).at(1));
  auto listener = right.listen();
  const auto endpoint = listener->endpoint().encode();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(240);  // whatever becomes of the parent
    try {
      Router left(rdma_router_options(1).at(0));
      auto connecting = left.connect(Endpoint::decode(endpoint), {});
      std::unique_ptr<Connection> connection;
      while (!connection) connection = connecting->poll();
      std::vector<std::byte> data(100'000);
      while (Request* send = connection->post_send(data)) {
        std::size_t bytes = 0;
        while (connection->test(send, bytes) == Outcome::kPending) {
        }
      }
      std::cerr << "the child cannot send: "
                << (connection->error() != nullptr ? connection->error()->what() : "?") << std::endl;
    } catch (const std::exception& error) {
      std::cerr << "the child failed: " << error.what() << std::endl;
    }
    std::_Exit(1);  // the rest of the tests is the parent's
  }
  std::unique_ptr<Connection> connection;
  for (auto deadline = test::soon(); !connection && !deadline.passed();) connection = listener->accept();
  if (!connection) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ASSERT_TRUE(connection);
  std::vector<std::byte> buffer(100'000);
  std::size_t bytes = 0;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(finish(*connection, connection->post_receive(buffer), bytes), Outcome::kDone);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  Outcome outcome = Outcome::kDone;
  while (outcome == Outcome::kDone) outcome = finish(*connection, connection->post_receive(buffer), bytes);
  EXPECT_EQ(outcome, Outcome::kFailed);
  ASSERT_NE(connection->error(), nullptr);
  EXPECT_EQ(connection->error()->cause(), Cause::kRemote);
  expect_in(connection->error()->what(), "vanished");
  expect_in(connection->error()->what(), "host left");
}

}  // namespace
}  // namespace tombolo::transport
