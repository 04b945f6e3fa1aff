#include "trainer/run/reduction_choice.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/testing/test_support.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;

BackEnd gpu(const std::string& address, const std::string& problem = {}) {
  BackEnd back_end;
  back_end.device = DeviceChoice::kCuda;
  back_end.gpu = address;
  if (problem.empty())
    back_end.nccl = "NCCL 2.28.9 (libnccl.so.2)";
  else
    back_end.nccl_problem = problem;
  return back_end;
}

/// What all ranks decide, which must be the same; or the error that all of them find.
std::string decided(const ReductionWish& wish, const std::vector<BackEnd>& ranks) {
  std::mutex mutex;
  std::vector<std::string> found(ranks.size());
  const auto body = [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    std::string text;
    try {
      const ReductionDecision decision = choose_reduction(wish, ranks[rank], &world);
      text = fmt::format("{}: {}", decision.reduction == Reduction::kNccl ? "nccl" : "engine", decision.note);
    } catch (const Error& error) {
      text = fmt::format("{}: {}", cause_name(error.cause()), error.what());
    }
    const std::scoped_lock lock(mutex);
    found[rank] = text;
  };
  collectives::test::expect_fine(collectives::test::run_ranks(std::string(ranks.size(), 'A'), body));
  for (const std::string& text : found) EXPECT_EQ(text, found.front()) << "ranks must decide alike";
  return found.front();
}

TEST(ReductionChoice, ChoicesHaveNames) {
  for (const auto choice : {ReductionChoice::kAuto, ReductionChoice::kEngine, ReductionChoice::kNccl})
    EXPECT_EQ(reduction_choice_from_name(reduction_choice_name(choice)), choice);
  EXPECT_FALSE(reduction_choice_from_name("mpi"));
}

TEST(ReductionChoice, AutoTakesNcclWhereEveryRankHasAGpuOfItsOwn) {
  EXPECT_EQ(decided({.plugin = "/lib/plugin.so"}, {gpu("a 1"), gpu("a 2"), gpu("b 1")}),
            "nccl: gradients: summed by NCCL 2.28.9 (libnccl.so.2), NCCL_NET_PLUGIN /lib/plugin.so");
  EXPECT_EQ(decided({}, {gpu("a 1"), gpu("a 2")}),
            "nccl: gradients: summed by NCCL 2.28.9 (libnccl.so.2), NCCL_NET_PLUGIN not set");
}

TEST(ReductionChoice, AutoTakesTheEngineElseAndSaysWhy) {
  EXPECT_EQ(decided({}, {gpu("a 1"), gpu("a 2"), gpu("a 1")}),
            "engine: gradients: summed by the engine: ranks 0 and 2 share a GPU, which NCCL refuses without "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 (2.30 and later) or an NCCL_HOSTID for each");
  EXPECT_EQ(decided({}, {gpu("a 1"), gpu("a 2", "NCCL cannot be loaded")}),
            "engine: gradients: summed by the engine: rank 1: NCCL cannot be loaded");
  EXPECT_EQ(decided({}, {BackEnd{}, gpu("a 2")}),
            "engine: gradients: summed by the engine: rank 0 computes on the CPU");
  EXPECT_NE(decided({.counts_bytes = true}, {gpu("a 1"), gpu("a 2")}).find("--measured count bytes"),
            std::string::npos);
}

TEST(ReductionChoice, RanksMayShareAGpuWhereNcclIsToldToLetThem) {
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_TRUE(decided({}, {gpu("a 1"), gpu("a 1")}).starts_with("nccl: "));
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  EXPECT_TRUE(decided({}, {gpu("a 1"), gpu("a 1")}).starts_with("engine: "));
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST(ReductionChoice, OnCpusThereIsNothingToSay) {
  EXPECT_EQ(decided({}, {BackEnd{}, BackEnd{}}), "engine: ");
}

TEST(ReductionChoice, TheEngineIsTakenWhereItIsAskedFor) {
  EXPECT_EQ(decided({.choice = ReductionChoice::kEngine}, {gpu("a 1"), gpu("a 2")}),
            "engine: gradients: summed by the engine (--reduce engine)");
}

TEST(ReductionChoice, NcclThatCannotBeIsTheSameErrorOnEveryRank) {
  EXPECT_EQ(decided({.choice = ReductionChoice::kNccl}, {gpu("a 1"), gpu("a 1")}),
            "unsupported: --reduce nccl: ranks 0 and 1 share a GPU, which NCCL refuses without "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 (2.30 and later) or an NCCL_HOSTID for each; --reduce auto takes "
            "the engine then");
}

TEST(ReductionChoice, RanksWithDifferentChoicesAreRefused) {
  const auto body = [](Communicator& world) {
    ReductionWish wish;
    wish.choice = world.rank() == 0 ? ReductionChoice::kAuto : ReductionChoice::kEngine;
    test::expect_refusal([&] { choose_reduction(wish, gpu(fmt::format("a {}", world.rank())), &world); },
                         {"ranks 0 and 1", "--reduce"});
  };
  collectives::test::expect_fine(collectives::test::run_ranks("AA", body));
}

TEST(ReductionChoice, NcclOnACpuIsRefusedBeforeRanksMeet) {
  test::expect_refusal([] { check_reduction(ReductionChoice::kNccl, DeviceChoice::kCpu); },
                       {"--reduce nccl", "computes on the CPU", "--device cuda"});
  check_reduction(ReductionChoice::kNccl, DeviceChoice::kCuda);
  check_reduction(ReductionChoice::kAuto, DeviceChoice::kCpu);
}

TEST(ReductionChoice, OneRankHasNothingToSum) {
  EXPECT_EQ(choose_reduction({.choice = ReductionChoice::kNccl}, gpu("a 1"), nullptr).note, "");
}

}  // namespace
}  // namespace tombolo::trainer
