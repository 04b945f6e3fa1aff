// That a comm in which nothing moves, and a connect or accept that does not get on, are told of, on a
// pretended clock.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "net_plugin/comms/context.h"
#include "net_plugin/comms/set_up_stall.h"
#include "net_plugin/testing/loopback_node.h"
#include "net_plugin/testing/silent_peer.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::seconds;

class CommStall : public testing::Test {
 protected:
  void SetUp() override {
    clock_.advance(seconds(1000));
    context_ = std::make_unique<Context>(testing_support::node_that_tells_of_stalls(clock_),
                                         Log(LogLevel::kWarning, [this](LogLevel, std::string_view text) {
                                           log_ += fmt::format("{}\n", text);
                                         }));
    listener_ = context_->listen(0);
  }
  void make_comms() {
    const HandleBytes handle = listener_->handle();
    for (const auto deadline = Deadline::after(seconds(60)); !(sender_ && receiver_);) {
      ASSERT_FALSE(deadline.passed());
      if (!sender_) sender_ = context_->connect(0, handle);
      if (!receiver_) receiver_ = listener_->accept();
    }
  }
  Request* post(Comm& comm, Comm::Direction direction) {
    const Buffer one{buffer_, 5, nullptr};
    Request* request = nullptr;
    for (const auto deadline = Deadline::after(seconds(60)); request == nullptr && !deadline.passed();)
      EXPECT_EQ(comm.post(direction, std::span(&one, 1), request), abi::ncclSuccess);
    return request;
  }
  static void test_often(Comm& comm, Request& request) {
    bool done = false;
    for (unsigned i = 0; i < 2 * StallWatch::kCalls && !done; ++i)
      ASSERT_EQ(comm.test(request, done, nullptr), abi::ncclSuccess);
    EXPECT_FALSE(done);
  }

  FakeClock clock_;
  std::string log_;
  std::array<std::byte, 64> buffer_{};
  std::unique_ptr<Context> context_;
  std::unique_ptr<ListenComm> listener_;
  std::unique_ptr<Comm> sender_, receiver_;
};

TEST_F(CommStall, AReceiveThatNothingComesForIsToldOf) {
  make_comms();
  Request* request = post(*receiver_, Comm::Direction::kReceive);
  ASSERT_NE(request, nullptr);
  test_often(*receiver_, *request);
  clock_.advance(seconds(29));
  test_often(*receiver_, *request);
  EXPECT_EQ(log_, "");
  clock_.advance(seconds(2));
  test_often(*receiver_, *request);
  for (const char* part :
       {"rank 3 on host a0: nothing has moved for 31 s in a receive of 64 bytes, tag 5", "lo -> "})
    EXPECT_NE(log_.find(part), std::string::npos) << log_;
  log_.clear();
  test_often(*receiver_, *request);
  EXPECT_EQ(log_, "") << "once";
}

TEST_F(CommStall, AnAcceptToWhichNobodyComesIsToldOf) {
  EXPECT_EQ(listener_->accept(), nullptr);
  clock_.advance(seconds(29));
  EXPECT_EQ(listener_->accept(), nullptr);
  EXPECT_EQ(log_, "");
  clock_.advance(seconds(2));
  EXPECT_EQ(listener_->accept(), nullptr);
  for (const char* part :
       {"rank 3 on host a0: accept on device lo has waited for 31 s, and no peer has connected to 127.0.0.1 "
        "port ",
        "TOMBOLO_NET_STALL"})
    EXPECT_NE(log_.find(part), std::string::npos) << log_;
  log_.clear();
  EXPECT_EQ(listener_->accept(), nullptr);
  EXPECT_EQ(log_, "") << "once";
  // A comm that comes begins the wait for the next one anew.
  make_comms();
  EXPECT_EQ(listener_->accept(), nullptr);
  clock_.advance(seconds(29));
  EXPECT_EQ(listener_->accept(), nullptr);
  EXPECT_EQ(log_, "");
}

TEST_F(CommStall, AConnectThatNobodyAnswersIsToldOf) {
  const testing_support::SilentPeer peer;
  const HandleBytes handle = peer.in_place_of(listener_->handle());
  EXPECT_EQ(context_->connect(0, handle), nullptr);
  clock_.advance(seconds(29));
  EXPECT_EQ(context_->connect(0, handle), nullptr);
  EXPECT_EQ(log_, "");
  clock_.advance(seconds(2));
  EXPECT_EQ(context_->connect(0, handle), nullptr);
  for (const char* part :
       {"rank 3 on host a0: connect from device lo has waited for 31 s for a connection to the listener at "
        "127.0.0.1 port ",
        "It fails after 600 s in all (TOMBOLO_NET_DEADLINE)", "TOMBOLO_NET_STALL"})
    EXPECT_NE(log_.find(part), std::string::npos) << log_;
  log_.clear();
  EXPECT_EQ(context_->connect(0, handle), nullptr);
  EXPECT_EQ(log_, "") << "once";
}

TEST(SetUpStall, NamesAFewOfManyAddressesAndWhatIsAskedFor) {
  std::vector<transport::Offer> offers(6);
  for (std::size_t i = 0; i < offers.size(); ++i) offers[i].address = fmt::format("10.0.0.{}", i);
  offers[0].kind = topology::NicKind::kInfiniBand;
  offers[0].port = 4711;
  const StallReports reports(seconds(30), "", "a0");
  const std::string text =
      stall_text(reports, {SetUpStall::Of::kQuery, "ib0", offers, seconds(31), seconds(300)});
  for (const char* part : {"host a0: connect from device ib0", "the addresses of all NICs from the listener",
                           "10.0.0.0 port 4711 (infiniband), 10.0.0.1", "10.0.0.3", " and 2 more"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(text.find("10.0.0.4"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::net_plugin
