#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/demo/steps.h"
#include "tools/demo/testing_report.h"

namespace tombolo::tools::demo {
namespace {

TEST(DemoSummary, HasALinePerRunAndTheSpeedups) {
  const std::string text = summary(made_up_report());
  EXPECT_MENTIONS(text, "One communicator today  2048      500 ms  540 ms     +8 %   5.6 MB/step  0 B/step");
  EXPECT_MENTIONS(
      text, "Holmes plan             5120      200 ms  190 ms     -5 %   400 kB/step  2.4 MB/step  2.50x");
  EXPECT_MENTIONS(
      text, "speedup 2.50x, of that from placement 2.00x; the losses of the three differ by at most 2.0e-05");
  EXPECT_MENTIONS(text, "\nloss 5.500 -> 2.683 over 200 steps");
  EXPECT_EQ(text.find("NOTE"), std::string::npos);
  EXPECT_EQ(text.find("plans:"), std::string::npos);
}

TEST(DemoSummary, CountsOtherPlansAndTheirOrder) {
  Report report = made_up_report();
  report.more.push_back(report.runs[2]);
  EXPECT_MENTIONS(summary(report),
                  "\n4 plans: predictions off by 8 % at most; the predicted order is the measured one");
  report.more[0].predicted.step_seconds = 1;
  report.more[0].measured_step_seconds = 0.1;
  EXPECT_MENTIONS(summary(report), "the predicted order is not the measured one");
}

TEST(DemoSummary, NotesWhatIsNotAsExpectedAndLeavesOutWhatIsNotThere) {
  Report report = made_up_report();
  report.loss.clear();
  report.runs[0].tokens_per_second = 0;
  const std::string text = summary(report);
  EXPECT_EQ(text.find("loss 5"), std::string::npos);
  EXPECT_MENTIONS(text, "\nNOTE: a speedup of at least 1.4x was expected, not 0.00x");
  EXPECT_EQ(text.find("inf"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::tools::demo
