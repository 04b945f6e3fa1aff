// What goes wrong inside a call fails the connection: no exception leaves it, and none ends the process.
#include <gtest/gtest.h>

#include <new>

#include "transport/testing/raw_peer.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::tcp {
namespace {

class GuardedCalls : public testing::Test {
 protected:
  /// The caller's sink throws when it hears of a broken stream, in the middle of its repair.
  template <typename Thrown>
  void break_a_stream_and_throw(const Thrown& thrown) {
    RouterOptions options = test::router_options("right");
    options.log = Log(LogLevel::kInfo, [thrown](LogLevel, std::string_view text) {
      if (text.find("broke") != std::string_view::npos) throw thrown;
    });
    router_ = std::make_unique<Router>(options);
    peer_ = std::make_unique<test::RawPeer>(*router_, 2);
    Connection& connection = *peer_->connection;
    std::array<std::byte, 10> buffer{};
    Request* receive = connection.post_receive(buffer);
    peer_->sockets[1].reset();
    std::size_t bytes = 0;
    EXPECT_EQ(test::finish(connection, receive, bytes), Outcome::kFailed);
    ASSERT_NE(connection.error(), nullptr);
    EXPECT_FALSE(connection.progress());
  }
  void expect_told() {
    std::optional<FrameHeader> header;
    for (HeaderBytes bytes; !header || header->type != FrameType::kGoodbye;) {  // a ping may come before it
      ASSERT_EQ(recv(peer_->sockets[0].get(), bytes.data(), bytes.size(), MSG_WAITALL), std::ssize(bytes));
      header = decode(bytes);
      ASSERT_TRUE(header && intact(bytes));
    }
    EXPECT_EQ(header->reason, GoodbyeReason::kFailed);
  }

  std::unique_ptr<Router> router_;
  std::unique_ptr<test::RawPeer> peer_;
};

TEST_F(GuardedCalls, AnErrorInsideFailsTheConnectionWithItsCause) {
  break_a_stream_and_throw(Error(Cause::kInternal, "an invariant does not hold"));
  const Error& error = *peer_->connection->error();
  EXPECT_EQ(error.cause(), Cause::kInternal);
  test::expect_in(error.what(), "an invariant does not hold");
  expect_told();
}

TEST_F(GuardedCalls, SoDoesALackOfMemory) {
  break_a_stream_and_throw(std::bad_alloc());
  EXPECT_EQ(peer_->connection->error()->cause(), Cause::kSystem);
  expect_told();
}

}  // namespace
}  // namespace tombolo::transport::tcp
