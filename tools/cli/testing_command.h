// Runs commands like a user, inside the test's process.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "tools/cli/command.h"

namespace tombolo::tools {

/// A fixture with every command, and a folder for their files.
class CommandTest : public ::testing::Test {
 protected:
  std::string file(const char* name) const { return folder_.file(name); }

  /// Runs a command and returns its exit code; what it printed is in out_ and err_.
  int run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tombolo");
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    CommandLine tombolo;
#define TOMBOLO_COMMAND(name) add_##name(tombolo);
#include "tools/cli/commands.inc"
#undef TOMBOLO_COMMAND
    const int code = tombolo.run(static_cast<int>(pointers.size()), pointers.data());
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  TemporaryFolder folder_;
  std::string out_, err_;
};

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace tombolo::tools
