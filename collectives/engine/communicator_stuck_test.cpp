// What ranks say of themselves in the store once they wait in vain. Who is blamed for it: tools/stuck/.
#include <gtest/gtest.h>

#include <thread>

#include "collectives/engine/stuck_reporter.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

constexpr Duration kReportPatience = std::chrono::seconds(60);

/// That rank's report, once `wanted` says that it is the one.
template <typename Wanted>
RankReport report_of(Store& store, int rank, const Wanted& wanted) {
  const auto deadline = Deadline::after(kReportPatience);
  for (;;) {
    if (const auto bytes = store.try_get(report_key("comm/0", rank))) {
      RankReport report = RankReport::decode(*bytes, rank);
      if (wanted(report)) return report;
    }
    if (deadline.passed()) {
      ADD_FAILURE() << "rank " << rank << " has not said so";
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool is_stuck(const RankReport& report) {
  return !report.communicators.empty();
}

/// It is stuck, and has started that collective last. On a slow machine it may have been so in an earlier
/// one.
bool is_in(const RankReport& report, std::uint64_t number) {
  return is_stuck(report) && report.communicators[0].operations.back().number == number;
}

/// Runs `waits` on rank 0 and `comes` on rank 1, which gets a client of the store.
template <typename Waits, typename Comes>
void run_pair(const Waits& waits, const Comes& comes) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  std::atomic<int> lines{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options options = options_for("AA", rank, server.port());
      options.stuck_after = std::chrono::milliseconds(100);
      options.log = Log(LogLevel::kWarning, [&](LogLevel, std::string_view text) {
        if (text.find("is stuck: ") != std::string_view::npos) ++lines;
      });
      const auto communicator = Communicator::create(options);
      communicator->barrier();
      if (rank == 0) return waits(*communicator);
      const auto store =
          Store::connect("127.0.0.1", server.port(), kTestSecret, Deadline::after(kReportPatience), Log());
      comes(*communicator, *store);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GE(lines, 1);
}

TEST(CommunicatorStuck, SaysWhichCollectiveWaitsForWhomAndThatItHasGoneOn) {
  std::vector<float> data(100);
  std::vector<float> other(100);
  run_pair(
      [&](Communicator& communicator) {
        communicator.all_reduce(data.data(), data.data(), 100, DataType::kFloat32, ReduceOp::kSum);
        communicator.barrier();
      },
      [&](Communicator& communicator, Store& store) {
        const RankReport report = report_of(store, 0, [](const RankReport& one) { return is_in(one, 2); });
        ASSERT_EQ(report.communicators.size(), 1u);
        EXPECT_EQ(report.host, "host0");
        EXPECT_EQ(report.process, getpid());
        const ReportedCommunicator& one = report.communicators[0];
        EXPECT_EQ(one.name, "comm/0");
        EXPECT_EQ(one.ranks, (std::vector<std::int64_t>{0, 1}));
        EXPECT_GE(one.stuck_seconds, 0.1);
        ASSERT_EQ(one.operations.size(), 2u);
        EXPECT_EQ(one.operations[0].text(), "barrier #1");
        EXPECT_EQ(one.operations[0].state, OperationState::kCompleted);
        EXPECT_EQ(one.operations[1].text(), "all_reduce #2 (100 float sum)");
        EXPECT_EQ(one.operations[1].state, OperationState::kStarted);
        ASSERT_FALSE(one.waits.empty());
        EXPECT_EQ(one.waits[0].number, 2u);
        EXPECT_EQ(one.waits[0].peer, 1);
        EXPECT_EQ(one.waits[0].kind, WaitKind::kReceive);
        EXPECT_EQ(one.waits[0].bytes, 400u);
        ASSERT_EQ(one.links.size(), 1u);
        EXPECT_EQ(one.links[0].peer, 1);
        EXPECT_EQ(one.links[0].nic, "eth0");
        EXPECT_EQ(one.links[0].messages_received, 1u);  // of the barrier
        communicator.all_reduce(other.data(), other.data(), 100, DataType::kFloat32, ReduceOp::kSum);
        report_of(store, 0, [](const RankReport& later) { return !is_stuck(later); });
        communicator.barrier();
      });
}

TEST(CommunicatorStuck, SaysItOfCallsThatWereOnlyStartedAndOfThoseBehindThem) {
  constexpr int kCalls = 6;  // on four channels
  std::vector<float> data(kCalls), other(kCalls);
  const auto start = [](Communicator& communicator, std::vector<float>& values) {
    std::vector<Work> works;
    for (int i = 0; i < kCalls; ++i) {
      works.push_back(communicator.start({Collective::kAllReduce, &values[static_cast<std::size_t>(i)],
                                          &values[static_cast<std::size_t>(i)], 1, DataType::kFloat32}));
    }
    return works;
  };
  run_pair(
      [&](Communicator& communicator) {
        const auto works = start(communicator, data);
        for (const Work work : works) {
          while (!communicator.test(work)) std::this_thread::yield();
        }
      },
      [&](Communicator& communicator, Store& store) {
        const RankReport report =
            report_of(store, 0, [](const RankReport& one) { return is_in(one, 1 + kCalls); });
        std::vector<OperationState> states;
        for (const ReportedOperation& one : report.communicators.at(0).operations)
          states.push_back(one.state);
        using enum OperationState;
        EXPECT_EQ(states,
                  (std::vector{kCompleted, kStarted, kStarted, kStarted, kStarted, kScheduled, kScheduled}));
        for (const Work work : start(communicator, other)) communicator.wait(work);
      });
}

TEST(CommunicatorStuck, SaysWhichMessageIsAwaited) {
  char sent = 1, received = 0;
  run_pair([&](Communicator& communicator) { communicator.receive(&received, 1, 1); },
           [&](Communicator& communicator, Store& store) {
             const RankReport report = report_of(store, 0, [](const RankReport& one) {
               return is_stuck(one) && one.communicators[0].waits[0].number == 0;
             });
             const auto& waits = report.communicators.at(0).waits;
             ASSERT_EQ(waits.size(), 1u);
             EXPECT_EQ(waits[0].number, 0u);
             EXPECT_EQ(waits[0].peer, 1);
             communicator.send(&sent, 1, 0);
           });
}

}  // namespace
}  // namespace tombolo::collectives
