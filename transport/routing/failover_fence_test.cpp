// What a connection takes over from a way as that is left: the messages that lack a receive, and the failure
// to have them.
#include <gtest/gtest.h>

#include <cerrno>

#include "transport/testing/failover_fixture.h"

namespace tombolo::transport {
namespace {

class FailoverFence : public test::FailoverTest {
 protected:
  /// The right end's way has failed in the call that received a first message; the messages behind it have
  /// come to its NIC, and nobody has taken them yet.
  void lose_the_way_in_front_of(std::span<const std::vector<std::byte>> messages) {
    connect();
    std::byte byte{};
    Request* receive = right().post_receive({&byte, 1});
    std::vector<Request*> sends{left().post_send({&byte, 1})};
    for (const auto& message : messages) sends.push_back(left().post_send(message));
    std::size_t bytes = 0;
    for (Request* send : sends) ASSERT_EQ(test::finish(left(), send, bytes), Outcome::kDone);
    verbs_.refuse("post_recv", EIO);  // as the message's place is given to the NIC again
    ASSERT_EQ(test::finish(right(), receive, bytes), Outcome::kDone);
    ASSERT_TRUE(verbs_.refused_all());
    ASSERT_EQ(moving(right()).state(), FailoverState::kUp) << "it has not looked at its way since";
  }
};

TEST_F(FailoverFence, AMessageThatCameAndIsLargerThanTheReceivePostedSinceFailsBothEnds) {
  const std::vector<std::vector<std::byte>> messages{std::vector<std::byte>(100)};
  lose_the_way_in_front_of(messages);
  if (HasFatalFailure()) return;
  std::vector<std::byte> buffer(10);
  right().post_receive(buffer);
  test::expect_in(failure_of(right()),
                  "message 2 has 100 bytes, but the receive posted for it takes 10 bytes");
  EXPECT_EQ(right().error()->cause(), Cause::kRemote);
  test::expect_in(failure_of(left()), "the peer's listener is gone");
}

TEST_F(FailoverFence, WhereWhatHasComeCannotBeTakenTheErrorSaysWhy) {
  const std::vector<std::vector<std::byte>> messages{std::vector<std::byte>(100)};
  lose_the_way_in_front_of(messages);
  if (HasFatalFailure()) return;
  verbs_.refuse("poll_cq", EIO);
  right().progress();
  ASSERT_NE(right().error(), nullptr);
  EXPECT_TRUE(verbs_.refused_all());
  test::expect_in(right().error()->what(),
                  "what its NICs had received cannot be taken: RDMA device pretended2 refuses to tell its "
                  "completions; before that; leg 0 over carrier 6");
  EXPECT_EQ(right().error()->cause(), Cause::kSystem);
}

}  // namespace
}  // namespace tombolo::transport
