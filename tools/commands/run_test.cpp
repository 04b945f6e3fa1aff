// What tombolo run refuses, and with which words. tests/process/launcher_test.cpp starts ranks with it.
#include <gtest/gtest.h>

#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class RunCommandTest : public CommandTest {};

TEST_F(RunCommandTest, SaysWhatIsWrong) {
  refuses({"run"}, {"program", "required"});
  refuses({"run", "-n", "0", "--", "true"}, {"--ranks"});
  refuses({"run", "-n", "many", "--", "true"}, {"--ranks", "many"});
  refuses({"run", "--", "no-such-program-here"}, {"program 'no-such-program-here' was not found"});
  refuses({"run", "--", "/"}, {"program '/' was not found, or may not be executed"});
  refuses({"run", "--order", "block", "--", "true"}, {"--order", "it needs --emulate"});
  refuses({"run", "--env", "broken", "--", "true"}, {"--env 'broken': expected NAME=VALUE"});
  refuses({"run", "--routing", "best", "--", "true"}, {"--routing", "best"});
  refuses({"run", "--timeout", "-1", "--", "true"}, {"--timeout", "expected a number > 0, found -1"});
  refuses({"run", "--emulate", "holmes:hosts=3", "--", "true"}, {"hosts=3 is not an even number"});
  refuses({"run", "--emulate", file("none.json"), "--", "true"}, {"none.json"});
  refuses({"run", "--emulate", "holmes", "--emulation-mode", "dream", "--", "true"},
          {"--emulation-mode", "dream"});
}

TEST_F(RunCommandTest, NamesTheHostsOfAnEmulationForAnOrderWithAnother) {
  refuses(
      {"run", "--emulate", "holmes", "--emulation-mode", "loopback", "--order", "a0,z9,b0,b1", "--", "true"},
      {"'z9' is neither block, interleaved, nor a host; hosts are a0, a1, b0, b1"});
}

}  // namespace
}  // namespace tombolo::tools
