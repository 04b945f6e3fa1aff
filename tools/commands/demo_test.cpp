// What tombolo demo refuses before it begins. tests/netns/demo_test.py runs it to its end.
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class DemoCommand : public CommandTest {};

TEST_F(DemoCommand, RefusesOptionsThatCannotBe) {
  refuses({"demo", "--emulation-mode", "moon"}, {"--emulation-mode", "moon"});
  refuses({"demo", "--ethernet", "quick"}, {"--ethernet", "'quick' is not a rate"});
  refuses({"demo", "--ethernet", "1tbit"}, {"--ethernet"});
  refuses({"demo", "--ethernet", "9kbit"}, {"--ethernet: 9 kbit/s cannot be emulated", "100 kbit/s to"});
  refuses({"demo", "--compare-steps", "1"}, {"--compare-steps 1", "2 to 1000000 are possible"});
  refuses({"demo", "--steps", "0"}, {"--steps 0"});
  refuses({"demo", "--seconds-limit", "-3"}, {"--seconds-limit -3"});
  refuses({"demo", "--out", ""}, {"--out"});
  refuses({"demo", "--text", "x"}, {"--text"});
}

TEST_F(DemoCommand, RefusesAFolderThatHoldsOthersFilesAndLeavesThem) {
  folder_.write("results/report.html", "mine");
  EXPECT_EQ(run({"demo", "--out", file("results")}), kExitBadUsage);
  EXPECT_MENTIONS(err_, "report.html is there");
  EXPECT_EQ(folder_.read("results/report.html"), "mine");
}

}  // namespace
}  // namespace tombolo::tools
