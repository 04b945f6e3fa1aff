// Collectives whose ranks have parts of different lengths, among ranks of one host: through the memory that
// these share, and by messages. Ranks are threads.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/format.h"
#include "collectives/testing/planned_calls.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

std::vector<Outcome> run_on_host(std::string_view algorithm, std::string_view clusters, const Body& body) {
  return run_ranks(clusters, body, [&](Options& options) {
    options.router.host.name = "host0";
    if (algorithm != kHostWay) options.algorithm = algorithm;
  });
}

/// The algorithm's name.
class Uneven : public testing::TestWithParam<const char*> {
 protected:
  static bool through_memory() { return GetParam() == kHostWay; }
  static std::vector<Outcome> run(std::string_view clusters, const Body& body) {
    return run_on_host(GetParam(), clusters, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Communicator, Uneven, testing::Values(kHostWay.data(), "direct"),
                         [](const auto& one) { return std::string(one.param); });

constexpr Collective kParted[] = {Collective::kAllGather, Collective::kReduceScatter, Collective::kGather,
                                  Collective::kScatter, Collective::kAllToAll};

TEST_P(Uneven, ACallWithOtherPartsThanTheOneBeforeIsThatCall) {
  for (const char* clusters : {"AA", "AAA"}) {
    expect_fine(run(clusters, [](Communicator& all) {
      int number = 0;
      for (const Collective collective : kParted) {
        for (const std::size_t count : {7, 7, 14, 50'000, 7, 0, 7}) {
          for (const bool uneven : {false, true, true}) {
            for (const bool started : {false, true}) {
              PlannedCall one({collective, count, number % all.size(), !started, uneven}, ++number,
                              all.rank(), all.size());
              if (started) {
                all.wait(all.start(one.call()));
              } else {
                all.run(one.call());
              }
              one.check();
              if (testing::Test::HasFatalFailure()) return;
              ASSERT_EQ(all.last_algorithm(), GetParam()) << collective_name(collective);
            }
          }
        }
      }
    }));
  }
}

/// What rank 1 of three makes is so many elements longer where it meets rank 0, or shorter. Elements are
/// bytes.
CollectiveCall call_of_parts(Collective collective, int rank, std::size_t other, std::vector<std::byte>& send,
                             std::vector<std::byte>& receive) {
  CollectiveCall call{collective, send.data(), receive.data(), 16};
  call.uneven = true;
  const auto parts = [](std::vector<std::size_t> counts) {
    return std::make_shared<const Parts>(Parts::adjoining(std::move(counts)));
  };
  if (rank == 1 && collective != Collective::kAllToAll) call.count = other;
  if (rank == 0 || !is_rooted(collective))
    call.parts =
        parts(rank == 1 && collective != Collective::kAllToAll ? std::vector<std::size_t>{16, other, 16}
                                                               : std::vector<std::size_t>{16, 16, 16});
  if (collective == Collective::kAllToAll) call.sent_parts = parts({rank == 1 ? other : 16, 16, 16});
  return call;
}

TEST_P(Uneven, LengthsThatDoNotMatchAreAnErrorThatNamesBoth) {
  struct Case {
    Collective collective;
    std::size_t reader;  // who finds it
    int sender;
    bool other_is_sent;
  };
  for (const Case& one : {Case{Collective::kGather, 0, 1, true}, Case{Collective::kScatter, 1, 0, false},
                          Case{Collective::kAllToAll, 0, 1, true}}) {
    for (const std::size_t other : {12UL, 100UL, 300'000UL}) {
      // By messages one that is too long is an error of the connection, and pieces are compared one by one.
      if (!through_memory() && other != (one.other_is_sent ? 12 : 100)) continue;
      const auto outcomes = run("AAA", [&](Communicator& all) {
        std::vector<std::byte> send(1'000'000), receive(1'000'000);
        all.run(call_of_parts(one.collective, all.rank(), other, send, receive));
        all.barrier();
      });
      SCOPED_TRACE(std::string(collective_name(one.collective)) + " with " + std::to_string(other));
      for (const Outcome& outcome : outcomes) {
        EXPECT_TRUE(outcome.threw);
        EXPECT_EQ(outcome.cause, Cause::kRemote);
      }
      const std::string& text = outcomes[one.reader].text;
      EXPECT_NE(text.find(fmt::format("it sent {} bytes where {} were expected",
                                      one.other_is_sent ? other : 16, one.other_is_sent ? 16 : other)),
                std::string::npos)
          << text;
      EXPECT_NE(text.find(fmt::format("rank {}", one.sender)), std::string::npos) << text;
    }
  }
}

TEST_P(Uneven, PartsThatAllShouldKnowAndDoNotAreAnError) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    const auto outcomes = run("AAA", [&](Communicator& all) {
      std::vector<std::byte> send(1000), receive(1000);
      all.run(call_of_parts(collective, all.rank(), 12, send, receive));
      all.barrier();
    });
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.threw) << collective_name(collective);
    if (through_memory()) {
      EXPECT_NE(outcomes[1].text.find("it made another call"), std::string::npos) << outcomes[1].text;
    }
  }
}

TEST_P(Uneven, PartsOfTheReceiveBufferMayHaveAnyOrderAndNotOverlap) {
  expect_fine(run("AAA", [](Communicator& all) {
    const auto own = static_cast<std::size_t>(all.rank());
    const std::vector<std::size_t> counts{2, 0, 3};
    const std::vector<std::byte> send(counts[own], std::byte(all.rank() + 1));
    std::vector<std::byte> receive(6, std::byte{9});
    CollectiveCall call{Collective::kAllGather, send.data(), receive.data(), counts[own]};
    call.uneven = true;
    for (const std::vector<std::size_t>& offsets :
         {std::vector<std::size_t>{1, 0, 2}, {3, 0, 1}, {0, 0, 1}, {2, 0, 2}}) {
      call.parts = std::make_shared<const Parts>(Parts{counts, offsets});
      EXPECT_THROW(all.run(call), Error) << offsets[0] << " and " << offsets[2];
    }
    call.parts = std::make_shared<const Parts>(Parts{counts, {4, 5, 0}});  // an empty part may lie anywhere
    all.run(call);
    constexpr std::byte k1{1}, k3{3}, k9{9};
    EXPECT_EQ(receive, (std::vector<std::byte>{k3, k3, k3, k9, k1, k1}));
  }));
}

// Also who only gives to a gather learns that its root has gone.
TEST(UnevenInHostMemory, ARankThatHasLeftIsNamed) {
  for (const Collective collective : kParted) {
    const auto outcomes = run_on_host(kHostWay, "AAA", [&](Communicator& all) {
      all.barrier();
      if (all.rank() == 1) return;
      PlannedCall one({collective, 7, 1, true, true}, 0, all.rank(), all.size());
      all.run(one.call());
    });
    EXPECT_FALSE(outcomes[1].threw) << outcomes[1].text;
    for (const std::size_t rank : {0U, 2U}) {
      EXPECT_TRUE(outcomes[rank].threw) << collective_name(collective);
      EXPECT_NE(outcomes[rank].text.find("rank 1 on host host0 failed: it has left the communicator"),
                std::string::npos)
          << outcomes[rank].text;
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
