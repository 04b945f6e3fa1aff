#include "tools/demo/environment.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <regex>

#include "compute/cores.h"
#include "tools/cli/testing.h"

namespace tombolo::tools::demo {
namespace {

TEST(DemoEnvironment, StatesThisMachineAndThisBuild) {
  const Environment environment = describe_environment();
  utsname name{};
  ASSERT_EQ(uname(&name), 0);
  EXPECT_MENTIONS(environment.kernel, name.release);
  EXPECT_FALSE(environment.processor.empty());
  EXPECT_EQ(environment.cores, compute::usable_processors());
  EXPECT_GT(environment.memory_bytes, 1e6);
  EXPECT_EQ(environment.version, TOMBOLO_VERSION);
  EXPECT_TRUE(std::regex_match(environment.started, std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")))
      << environment.started;
  EXPECT_EQ(environment.commit.find('\n'), std::string::npos);
  EXPECT_EQ(environment.emulation, "") << "that is for the caller";
}

TEST(DemoEnvironment, NamesTheCompilerThatItWas) {
  const std::string compiler = describe_environment().compiler;
  EXPECT_NE(compiler.starts_with("g++ "), compiler.find("Clang") != std::string::npos) << compiler;
}

TEST(DemoEnvironment, HasNoCommitWithoutGit) {
  const TemporaryVariable path("PATH", "/nonexistent");
  EXPECT_EQ(describe_environment().commit, "");
}

}  // namespace
}  // namespace tombolo::tools::demo
