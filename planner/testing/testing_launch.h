// Runs the scripts that start a plan, with stand-ins for the launchers that write down their arguments.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "planner/launch/launch.h"
#include "planner/testing/testing.h"

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_SILENT_ON(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

namespace tombolo::planner::testing {

/// A folder of programs that stand in for the launchers.
class LaunchScripts : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tombolo-launch-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "cluster.json") << "{}";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void stand_in(const std::string& program, const std::string& script) {
    std::ofstream(folder_ / program) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder_ / program, std::filesystem::perms::owner_all);
  }
  /// What the script prints, run as `environment sh script arguments`. What it started ends after a minute.
  std::string run(const std::string& script, const std::string& environment, const std::string& arguments) {
    std::ofstream(folder_ / "script") << script;
    const std::string command =
        "cd '" + folder_.string() +
        "'; unset TOMBOLO_CLUSTER TOMBOLO_HOST CUDA_VISIBLE_DEVICES; PATH=\"$PWD:$PATH\"; " + environment +
        " timeout 60 sh ./script " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    char part[4096];
    for (std::size_t got = 0; (got = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, got);
    status_ = WEXITSTATUS(pclose(pipe));
    return out;
  }
  std::string emit(Launcher launcher, const Plan& plan) const {
    return planner::emit(launcher, plan, cluster_, (folder_ / "cluster.json").string());
  }

  topology::ClusterFile cluster_ = make_cluster(
      {{"a", 2, 2, topology::NicKind::kInfiniBand, 1e9}, {"b", 2, 2, topology::NicKind::kRoce, 1e9}}, 1e7);
  std::filesystem::path folder_;
  int status_ = -1;
};

}  // namespace tombolo::planner::testing
