// What is told of messages whose connection has gone on over another way: to NCCL's profiler, and where
// nothing moves. Over a library of verbs without hardware, whose NICs write the memory of a pretended GPU.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "net_plugin/abi/net_events.h"
#include "net_plugin/comms/events.h"
#include "net_plugin/testing/failover_of_comms.h"

namespace tombolo::net_plugin::gpu {
namespace {

/// An event as NCCL's callback is told of it.
struct ToldEvent {
  std::int64_t id = 0;
  std::string begun, ended;  ///< the transports that the plugin's own profiler is told
};

class FailoverTelling : public GpuFailoverOfComms {
 protected:
  static constexpr std::size_t kBytes = 2 * kPieceBytes + 3;

  ~FailoverTelling() override { own_profiler_listens = false; }
  void begin(std::shared_ptr<StallReports> stalls = nullptr) {
    start({.seed = test_seed()});
    const auto with_stalls = [&](const std::string& host) {
      auto made = node(host, GpuMode::kAuto);
      made->stalls = stalls;
      return made;
    };
    from_ = std::make_unique<Context>(with_stalls("left"), book_.of("left"));
    to_ = std::make_unique<Context>(with_stalls("right"), book_.of("right"));
    comms_ = connect_comms(*from_, *to_);
    ASSERT_TRUE(comms_.send && comms_.receive);
    source_ = std::make_unique<Registered>(*comms_.send, kBytes, true);
    target_ = std::make_unique<Registered>(*comms_.receive, kBytes, true);
  }
  void end() {
    source_.reset();
    target_.reset();
    comms_ = {};
    from_.reset();
    to_.reset();
    verbs_.reset(test_seed());
  }

  struct Posted {
    void *sent = nullptr, *received = nullptr;
    int sent_done = 0, received_done = 0;
  };
  Posted post() {
    Posted made;
    void *into = target_->data(), *memory = target_->memory();
    const std::size_t room = kBytes;
    const int tag = 0;
    void* parent = &parent_;
    EXPECT_EQ(entry::receive(comms_.receive.get(), 1, &into, &room, &tag, &memory, &parent, &made.received),
              abi::ncclSuccess);
    EXPECT_EQ(
        entry::send(comms_.send.get(), source_->data(), kBytes, tag, source_->memory(), parent, &made.sent),
        abi::ncclSuccess);
    EXPECT_TRUE(made.sent != nullptr && made.received != nullptr);
    return made;
  }
  static bool over(Posted& posted) {
    if (posted.sent_done == 0) {
      EXPECT_EQ(entry::test(posted.sent, &posted.sent_done, nullptr), abi::ncclSuccess);
    }
    if (posted.received_done == 0) {
      EXPECT_EQ(entry::test(posted.received, &posted.received_done, nullptr), abi::ncclSuccess);
    }
    return posted.sent_done != 0 && posted.received_done != 0;
  }
  void finish_message(Posted posted) {
    for (auto deadline = soon(); !over(posted);) ASSERT_FALSE(deadline.passed());
  }
  /// The events of one message, the receive's first.
  std::vector<ToldEvent> message() {
    told_.clear();
    finish_message(post());
    EXPECT_EQ(told_.size(), 2U);
    told_.resize(2);
    return told_;
  }

  static abi::ncclResult_t tell(void** event, int type, void*, std::int64_t id, void* data) {
    if (type == abi::ncclProfilerNetEventStart) {
      told_.push_back({id, {}, {}});
      if (id == kOwnEventId) told_.back().begun = static_cast<NetEvent*>(data)->route->transport;
      *event = reinterpret_cast<void*>(told_.size());
    } else if (type == abi::ncclProfilerNetEventUpdateAndStop) {
      told_.at(reinterpret_cast<std::size_t>(*event) - 1).ended =
          static_cast<NetEvent*>(data)->route->transport;
    }
    return abi::ncclSuccess;
  }
  void observe() {
    comms_.send->observe(tell);
    comms_.receive->observe(tell);
  }

  inline static std::vector<ToldEvent> told_;
  std::unique_ptr<Context> from_, to_;
  Comms comms_;
  std::unique_ptr<Registered> source_, target_;
  int parent_ = 0;
};

TEST_F(FailoverTelling, NcclsProfilerIsToldTheKindOfTheWayThatAMessageTakes) {
  begin();
  observe();
  const auto ids = [this] {
    const auto told = message();
    return std::pair{told[0].id, told[1].id};
  };
  const auto rdma = abi::NCCL_PROFILER_NET_TYPE_IB | 1, socket = abi::NCCL_PROFILER_NET_TYPE_SOCK | 1;
  EXPECT_EQ(ids(), (std::pair{rdma, rdma}));
  verbs_.set_link(kLeft, false);
  ids();  // which goes over another way than it began
  EXPECT_EQ(ids(), (std::pair{socket, socket}));
  verbs_.set_link(kLeft, true);
  for (auto deadline = soon(); ids() != std::pair{rdma, rdma};) ASSERT_FALSE(deadline.passed());
  end();
}

TEST_F(FailoverTelling, ThePluginsOwnProfilerIsToldTheWayThatAMessageTookInTheEnd) {
  own_profiler_listens = true;
  begin();
  observe();
  EXPECT_EQ(message()[0].ended, "rdma");
  // The receive is posted on the NIC, and comes over the other way.
  told_.clear();
  verbs_.set_link(kLeft, false);
  finish_message(post());
  EXPECT_EQ(told_.at(0).begun, "rdma");
  for (const ToldEvent& one : told_) EXPECT_EQ(one.ended, "tcp");
  // These are given to the staged way, and come over it though their connection has returned meanwhile.
  told_.clear();
  cuda().set_pace(PretendedPace::kNever);
  Posted staged = post();
  verbs_.set_link(kLeft, true);
  for (auto deadline = soon(); book_.count("goes on over rdma") < 2;) {
    EXPECT_FALSE(over(staged));
    ASSERT_FALSE(deadline.passed());
  }
  Posted next = post();
  for (auto deadline = soon(); next.received_done == 0;) {
    over(next);
    ASSERT_FALSE(deadline.passed());
  }
  cuda().set_pace(PretendedPace::kEarly);
  finish_message(staged);
  finish_message(next);
  ASSERT_EQ(told_.size(), 4U);
  for (std::size_t i = 0; i < told_.size(); ++i) {
    EXPECT_EQ(told_[i].begun, i < 2 ? "tcp" : "rdma") << i;
    EXPECT_EQ(told_[i].ended, i < 2 ? "tcp" : "rdma") << i;
  }
  end();
}

TEST_F(FailoverTelling, AStallOfAStagedWayNamesTheGpusCopyAndTheWay) {
  begin(std::make_shared<StallReports>(std::chrono::nanoseconds(1), "", "here"));
  verbs_.set_link(kLeft, false);
  finish_message(post());
  cuda().set_pace(PretendedPace::kNever);
  const std::size_t before = book_.text().size();
  Posted posted = post();
  const auto tells = [&](const char* which, const char* way, const char* what) {
    const std::string text = book_.text().substr(before);
    const std::size_t at = text.find(which), end = text.find('\n', at);
    if (at == std::string::npos) return false;
    const std::string line = text.substr(at, end - at);
    return line.find(way) != std::string::npos && line.find(what) != std::string::npos;
  };
  const auto both = [&] {
    return tells("in a send of", "over tcp (eth0",
                 "this host's GPU has not done the copy of a staged piece") &&
           tells("in a receive of", "over tcp (eth0", "its GPU may not have done a copy of a staged piece");
  };
  for (auto deadline = soon(); !both();) {
    EXPECT_FALSE(over(posted));
    ASSERT_FALSE(deadline.passed()) << book_.text();
  }
  cuda().set_pace(PretendedPace::kEarly);
  finish_message(posted);
  end();
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
