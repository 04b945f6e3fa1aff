// Every check of a run can fail: a defect that was put in on purpose is found, by the check that is for it.
#include "tests/simulation/checks/defects.h"

#include <gtest/gtest.h>

#include <string>

#include "base/sanitizer.h"
#include "tests/simulation/under.h"

namespace tombolo::simulation {
namespace {

struct Found {
  Defect defect;
  const char* by;           // of what is reported
  std::uint64_t first = 1;  // seed; those before take long and do not show it
  Over over = Over::kTcp;
  Under under = Under::kConnection;
};
class DefectTest : public testing::TestWithParam<Found> {};

TEST_P(DefectTest, IsFound) {
  // A run that does not end loses what its actors hold, and takes minutes.
  if (kSanitized) GTEST_SKIP() << "the checks are the same under a sanitizer";
  RunOptions options;
  options.defect = GetParam().defect;
  std::string others;
  for (std::uint64_t seed = GetParam().first; seed <= 200; ++seed) {
    const AnyPlan plan = draw_plan(GetParam().under, seed, GetParam().over);
    const std::string wrong = run_plan(plan, options).wrong;
    if (wrong.find(GetParam().by) != std::string::npos) return;
    if (!wrong.empty()) others += "\n" + wrong;
  }
  FAIL() << "no seed shows '" << GetParam().by << "'; what they show:" << others;
}

INSTANTIATE_TEST_SUITE_P(
    All, DefectTest,
    testing::Values(
        Found{Defect::kLostByte, "got other bytes than were sent", 3},
        Found{Defect::kLostWakeUp, "not over after", 1, Over::kShm},
        Found{Defect::kOtherBytes, "got other bytes than were sent"},
        Found{Defect::kTwice, "bytes, expected"}, Found{Defect::kNotSent, "what can be survived was not"},
        Found{Defect::kWrongSize, "bytes reports"}, Found{Defect::kWrittenBeyond, "wrote beyond its message"},
        Found{Defect::kWrittenLate, "written after its request was over"},
        Found{Defect::kNoError, "the connection has no error", 5},
        Found{Defect::kNamelessError, "does not name the peer", 5},
        Found{Defect::kGivesUp, "what can be survived was not"}, Found{Defect::kNeverDone, "not over after"},
        Found{Defect::kSpins, "woken again and again for nothing"}, Found{Defect::kSlowClose, "closing took"},
        Found{Defect::kSlowConnect, "connecting took"},
        Found{Defect::kInterrupted, "what can be survived was not"},
        Found{Defect::kInterrupted, "what can be survived was not", 1, Over::kTcp, Under::kPlugin},
        Found{Defect::kNoticesLate, "noticing that the peer is gone took", 5},
        Found{Defect::kLeakedDescriptor, "descriptors are left"},
        Found{Defect::kLeakedMemory, "allocations are left"}),
    [](const auto& one) {
      std::string name = name_of(one.param.defect);
      std::erase(name, '-');
      const Under under = one.param.under;
      return under == Under::kConnection ? name : name + "beneath" + name_of(under);
    });

TEST(Defects, EachHasATestAndAName) {
  EXPECT_EQ(kDefects.size(), static_cast<std::size_t>(Defect::kLeakedMemory));
  for (const Defect one : kDefects) EXPECT_STRNE(name_of(one), "?");
}

}  // namespace
}  // namespace tombolo::simulation
