#include "tools/launch/rank_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/process/subprocess.h"

namespace tombolo::tools {
namespace {

using Lines = std::vector<std::string>;

/// All lines of a stream into which `text` was written, before its end was closed or not.
Lines lines_of(const std::string& text) {
  Pipe pipe = make_pipe();
  EXPECT_EQ(::write(pipe.write.get(), text.data(), text.size()), std::ssize(text));
  pipe.write.reset();
  LineStream stream(std::move(pipe.read));
  Lines lines;
  stream.drain(Deadline::after(std::chrono::seconds(60)),
               [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_FALSE(stream.open());
  return lines;
}

TEST(LineStream, CutsAtLineEndsAndKeepsEmptyLines) {
  EXPECT_EQ(lines_of("one\n\ntwo\n"), (Lines{"one", "", "two"}));
  EXPECT_EQ(lines_of(""), Lines{});
}

TEST(LineStream, HandsOutALastLineWithoutAnEnd) {
  EXPECT_EQ(lines_of("one\ntwo"), (Lines{"one", "two"}));
}

TEST(LineStream, JoinsALineThatArrivesInPieces) {
  Pipe pipe = make_pipe();
  LineStream stream(std::move(pipe.read));
  Lines lines;
  const auto collect = [&](std::string_view line) { lines.emplace_back(line); };
  ASSERT_EQ(::write(pipe.write.get(), "be", 2), 2);
  stream.read(collect);
  EXPECT_EQ(lines, Lines{});
  ASSERT_EQ(::write(pipe.write.get(), "gin\nnext", 8), 8);
  stream.read(collect);
  EXPECT_EQ(lines, Lines{"begin"});
}

TEST(LineStream, DoesNotKeepALineOfAnyLengthInMemory) {
  const std::string endless(3 * 16384, 'x');
  Pipe pipe = make_pipe();
  LineStream stream(std::move(pipe.read));
  Lines lines;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(::write(pipe.write.get(), endless.data(), endless.size()), std::ssize(endless));
    for (int reads = 0; reads < 3; ++reads)
      stream.read([&](std::string_view line) { lines.emplace_back(line); });
  }
  ASSERT_EQ(lines.size(), 1U) << "96 KiB without a line end";
  EXPECT_GT(lines[0].size(), 64U * 1024);
}

RankCommand shell_command(const std::string& script) {
  return {.program = "/bin/sh",
          .arguments = {"sh", "-c", script},
          .environment = {"WORD=hello"},
          .enter = {},
          .restore_signals = [] {}};
}

TEST(RankProcess, RunsWithItsEnvironmentAndEndsWithItsStatus) {
  RankProcess rank;
  rank.start(shell_command("echo $WORD; exit 3"));
  Lines lines;
  rank.streams[0].drain(Deadline::after(std::chrono::seconds(60)),
                        [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_EQ(lines, Lines{"hello"});
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(rank.has_ended());
  rank.kill_and_wait();
  EXPECT_FALSE(rank.running);
  EXPECT_EQ(exit_code_of(rank.status), 3);
}

TEST(RankProcess, NamesRankAndHostWhereItCannotStart) {
  RankProcess rank;
  rank.number = 2;
  rank.host = "b1";
  RankCommand command = shell_command("");
  command.enter = [] { return ENOENT; };
  try {
    rank.start(command);
    ADD_FAILURE() << "it started on a host that cannot be entered";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("as rank 2 on host 'b1'"), std::string::npos) << error.what();
  }
  rank.kill_and_wait();
}

}  // namespace
}  // namespace tombolo::tools
