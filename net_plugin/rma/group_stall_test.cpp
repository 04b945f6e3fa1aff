// That one-sided operations that do not get on are told of, on a pretended clock.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "net_plugin/rma/group.h"
#include "net_plugin/testing/loopback_node.h"
#include "net_plugin/testing/silent_peer.h"

namespace tombolo::net_plugin::rma {
namespace {

using std::chrono::seconds;

class GroupStall : public testing::Test {
 protected:
  GroupStall() {
    clock_.advance(seconds(1000));
    for (auto& one : listening_) one = listening();
    begin({listening_[0]->handle(), listening_[1]->handle()});
  }
  void begin(const std::array<HandleBytes, 2>& handles) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      groups_[rank] = std::make_unique<Group>(*listening_[rank], handles, rank);
      windows_[rank] = groups_[rank]->add_window(memory_[rank], abi::NCCL_PTR_HOST);
    }
  }
  std::unique_ptr<Listening> listening() {
    const auto node = testing_support::node_that_tells_of_stalls(clock_);
    return std::make_unique<Listening>(node, node->devices->at(0),
                                       Log(LogLevel::kWarning, [this](LogLevel, std::string_view text) {
                                         log_ += fmt::format("{}\n", text);
                                       }));
  }
  Operation* put() { return groups_[0]->put(1, windows_[0], 0, 64, windows_[0], 0, {}); }
  /// By `test`, or by `progress`.
  void call_often(Operation* operation) {
    for (unsigned i = 0; i < 2 * StallWatch::kCalls; ++i) {
      if (operation == nullptr)
        groups_[0]->progress();
      else
        ASSERT_FALSE(groups_[0]->test(operation));
    }
  }
  void expect_told(Operation* operation, std::initializer_list<const char*> parts) {
    call_often(operation);
    clock_.advance(seconds(29));
    call_often(operation);
    EXPECT_EQ(log_, "");
    clock_.advance(seconds(2));
    call_often(operation);
    for (const char* part : parts) EXPECT_NE(log_.find(part), std::string::npos) << log_ << " lacks " << part;
    log_.clear();
    call_often(operation);
    EXPECT_EQ(log_, "") << "once";
  }

  FakeClock clock_;
  std::string log_;
  std::array<std::array<std::byte, 64>, 2> memory_{};
  std::array<std::unique_ptr<Listening>, 2> listening_;
  std::array<std::unique_ptr<Group>, 2> groups_;
  std::array<Window*, 2> windows_{};
};

TEST_F(GroupStall, APutToARankThatDoesNotAnswerTheConnectionIsToldOf) {
  const testing_support::SilentPeer peer;
  begin({listening_[0]->handle(), peer.in_place_of(listening_[1]->handle())});
  Operation* operation = put();
  put();
  expect_told(operation,
              {"rank 3 on host a0: nothing has moved for 31 s towards rank 1 of one-sided operations: put of "
               "64 bytes to rank 1, window 0 at offset 0 and 1 behind it; the connection is not there yet",
               "TOMBOLO_NET_STALL"});
}

TEST_F(GroupStall, APutThatNobodyAnswersIsToldOfByProgressToo) {
  Operation* operation = put();
  for (const auto deadline = Deadline::after(seconds(60)); !groups_[0]->test(operation);) {
    groups_[1]->progress();
    ASSERT_FALSE(deadline.passed());
  }
  clock_.advance(std::chrono::hours(1));  // the program computes: nothing is under way
  call_often(nullptr);
  EXPECT_EQ(log_, "");
  put();
  expect_told(nullptr,
              {"rank 3 on host a0: nothing has moved for 31 s towards rank 1 of one-sided operations on "
               "host a0 over tcp (lo -> ",
               "put of 64 bytes to rank 1, window 0 at offset 0; that rank may make no calls"});
}

TEST(OperationStall, SaysWhatItWaitsFor) {
  const StallReports reports(seconds(30), "", "a0");
  OperationStall facts;
  facts.operation = "flush of rank 2";
  facts.rank = 2;
  facts.stalled = seconds(31);
  facts.waits = OperationWaits::kNic;
  EXPECT_NE(stall_text(reports, facts).find("flush of rank 2; the NICs have not finished it"),
            std::string::npos);
  facts.waits = OperationWaits::kTurn;
  EXPECT_NE(stall_text(reports, facts).find("flush of rank 2; it is not sent yet"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::net_plugin::rma
