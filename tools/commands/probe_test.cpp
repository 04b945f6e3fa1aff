// What tombolo probe refuses. tests/netns/commands_test.cpp lets it measure.
#include <gtest/gtest.h>

#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class ProbeCommand : public CommandTest {
 protected:
  TemporaryVariable size_{"WORLD_SIZE"}, rank_{"RANK"};  // whatever starts the tests
};

TEST_F(ProbeCommand, NeedsASecondRank) {
  refuses({"probe"}, {"one rank has nobody to measure a link with", "--emulate holmes"});
}

TEST_F(ProbeCommand, RefusesOptionsThatCannotBe) {
  refuses({"probe", "--seconds", "0"}, {"--seconds"});
  refuses({"probe", "--seconds", "61"}, {"--seconds"});
  refuses({"probe", "--emulate", "moon"}, {"there is no emulation 'moon'"});
  refuses({"probe", "-n", "2", "--order", "block"}, {"--order", "it needs --emulate"});
  refuses({"probe", "-n", "2", "--env", "=x"}, {"--env '=x': expected NAME=VALUE"});
}

}  // namespace
}  // namespace tombolo::tools
