#include "transport/routing/nic_pair_absences.h"

#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Absences : public testing::Test {
 protected:
  std::optional<NicPairName> due() {
    return absences_.due(now_, [&](const std::string& nic) { return nic != not_ready_; });
  }
  void wait(Duration time) { now_ += time; }

  NicPairAbsences absences_{seconds(1)};
  TimePoint now_ = TimePoint(seconds(100));
  std::string not_ready_;
  const NicPairName first_{"a0", "10.0.0.2"}, second_{"a1", "10.0.1.2"};
};

TEST_F(Absences, APairIsDueOnceItsNicHasBeenReadyWithoutABreak) {
  absences_.failed(first_, now_);
  not_ready_ = "a0";
  EXPECT_FALSE(due());
  wait(seconds(5));
  not_ready_.clear();
  EXPECT_FALSE(due());
  wait(milliseconds(900));
  not_ready_ = "a0";
  EXPECT_FALSE(due());
  not_ready_.clear();
  EXPECT_FALSE(due());
  wait(milliseconds(900));
  EXPECT_FALSE(due()) << "the time begins anew with each break";
  wait(milliseconds(100));
  EXPECT_EQ(due(), first_);
  absences_.returned(first_, now_);
  EXPECT_FALSE(due());
  EXPECT_FALSE(absences_.any());
}

TEST_F(Absences, PatienceDoublesWithEachFailureSoonAfterTheReturnUpToABound) {
  Duration wanted = seconds(1);
  for (int round = 0; round < 8; ++round) {
    absences_.failed(first_, now_);
    EXPECT_EQ(absences_.patience_of(first_), wanted) << round;
    EXPECT_FALSE(due());
    wait(wanted - milliseconds(1));
    EXPECT_FALSE(due());
    wait(milliseconds(1));
    ASSERT_EQ(due(), first_);
    absences_.returned(first_, now_);
    wait(seconds(9));
    wanted = std::min<Duration>(2 * wanted, seconds(32));
  }
  wait(seconds(1));
  absences_.failed(first_, now_);
  EXPECT_EQ(absences_.patience_of(first_), seconds(1)) << "it had stayed";
}

TEST_F(Absences, TriesInVainDoubleItTooAndTheOtherPairsTurnComes) {
  absences_.failed(first_, now_);
  absences_.failed(second_, now_);
  EXPECT_FALSE(due());
  wait(seconds(1));
  EXPECT_EQ(due(), first_);
  absences_.tried_in_vain(first_, now_);
  EXPECT_EQ(absences_.patience_of(first_), seconds(2));
  EXPECT_EQ(due(), second_);
  EXPECT_EQ(absences_.away(second_), std::vector{first_});
  absences_.returned(second_, now_);
  EXPECT_FALSE(due());
  wait(seconds(2));
  EXPECT_EQ(due(), first_);
  EXPECT_EQ(absences_.away(), std::vector{first_});
}

TEST_F(Absences, APairThatNeverFailedIsNotNoted) {
  absences_.returned(first_, now_);
  EXPECT_FALSE(absences_.any());
  absences_.failed(first_, now_);
  wait(seconds(1));
  absences_.failed(first_, now_);
  EXPECT_EQ(absences_.patience_of(first_), seconds(1)) << "it is away already";
}

}  // namespace
}  // namespace tombolo::transport
