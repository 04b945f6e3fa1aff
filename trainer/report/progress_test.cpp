#include "trainer/report/progress.h"

#include <gtest/gtest.h>

namespace tombolo::trainer {
namespace {

StepReport report_of(int step, double seconds) {
  StepReport report;
  report.step = step;
  report.loss = 3.25;
  report.gradient_norm = 0.5;
  report.seconds = seconds;
  report.tokens_per_second = 1000 / seconds;
  return report;
}

TEST(ProgressLines, TheFirstAndTheLastStepAndOneASecondGetALine) {
  ProgressLines progress({}, 10, 0);
  int lines = 0;
  for (int step = 0; step < 10; ++step) {
    const bool printed = !progress.line(report_of(step, 0.3)).empty();
    lines += printed ? 1 : 0;
    if (step == 0 || step == 9) {
      EXPECT_TRUE(printed) << step;
    }
  }
  EXPECT_EQ(lines, 4);  // steps 0, 4, 8 and 9
}

TEST(ProgressLines, AResumedRunsFirstStepGetsALine) {
  ProgressLines progress({}, 200, 0);
  EXPECT_NE(progress.line(report_of(100, 0.01)).find("step 101/200"), std::string::npos);
}

TEST(ProgressLines, TellTheTimeLeftByTheRecentSteps) {
  ProgressLines progress({}, 1000, 0);
  std::string line = progress.line(report_of(0, 100));  // a slow first step
  EXPECT_NE(line.find("1 d 3 h left"), std::string::npos) << line;
  for (int step = 1; step < 400; ++step) line = progress.line(report_of(step, 1.0));
  EXPECT_NE(line.find("10 min 00 s left"), std::string::npos) << line;
  EXPECT_EQ(progress.line(report_of(999, 1.0)).find("left"), std::string::npos);
}

TEST(ProgressLines, ShowUtilisationWhereThePeakIsKnown) {
  Shape shape;
  shape.context = 64;
  shape.layers = 2;
  shape.heads = 2;
  shape.width = 64;
  shape.padded_vocabulary = 256;
  EXPECT_EQ(ProgressLines(shape, 9, 0).line(report_of(0, 1)).find("MFU"), std::string::npos);
  EXPECT_NE(ProgressLines(shape, 9, 1e9).line(report_of(0, 1)).find("MFU 77.3 %"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::trainer
