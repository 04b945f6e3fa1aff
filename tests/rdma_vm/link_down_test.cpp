// That a connection with no other way names the link that went down.
#include "tests/rdma_vm/network_faults.h"
#include "tests/rdma_vm/verbs_fixture.h"

namespace tombolo::transport {
namespace {

using test::expect_in;
using test::finish;
using test::rdma_hosts;

TEST_F(Verbs, ALinkThatGoesDownWhileDataFlowsIsNamedInBoundedTime) {
  auto pair = connect(1, impatient());
  const std::string nic = rdma_hosts()[0].nics[0].name;
  std::vector<std::byte> data(2 << 20), buffer(2 << 20);
  std::size_t bytes = 0;
  Request* receive = pair.second->post_receive(buffer);
  Request* send = pair.first->post_send(data);
  ASSERT_EQ(finish(*pair.second, receive, bytes, pair.first.get()), Outcome::kDone);
  ASSERT_EQ(finish(*pair.first, send, bytes, pair.second.get()), Outcome::kDone);
  send = pair.first->post_send(data);
  receive = pair.second->post_receive(buffer);
  pair.second->progress();
  pair.first->progress();
  link_down(nic);
  const Outcome sent = finish(*pair.first, send, bytes, pair.second.get());
  if (sent == Outcome::kDone) {
    // This message was sent before the failure; the next one must fail.
    send = pair.first->post_send(data);
    pair.second->post_receive(buffer);
    ASSERT_EQ(finish(*pair.first, send, bytes, pair.second.get()), Outcome::kFailed);
  }
  ASSERT_NE(pair.first->error(), nullptr);
  const std::string text = pair.first->error()->what();
  expect_in(text, rdma_hosts()[0].nics[0].rdma_device);
  expect_in(text, "went down");
  EXPECT_EQ(finish(*pair.second, receive, bytes), sent == Outcome::kDone ? Outcome::kDone : Outcome::kFailed);
  pair.first.reset();
  pair.second.reset();
  link_up(nic);
}

}  // namespace
}  // namespace tombolo::transport
