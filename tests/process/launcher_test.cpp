// Tests the launcher with shell scripts as ranks.
#include "tools/launch/launcher.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tests/process/process_watch.h"
#include "tools/process/subprocess.h"

namespace tombolo::tools {
namespace {

using tests::eventually;
using tests::Folder;
using tests::is_running;
using tests::take_interrupts;

LaunchOptions script(int ranks, const std::string& text) {
  LaunchOptions options;
  options.ranks = ranks;
  options.program = {"sh", "-c", text};
  options.output = Output::kSilent;
  options.timeout = std::chrono::seconds(60);  // so that a test that hangs fails
  options.grace = std::chrono::milliseconds(500);
  return options;
}

std::vector<std::string> sorted_lines(LaunchOptions options) {
  std::vector<std::string> lines;
  options.on_line = [&](int rank, std::string_view line) {
    lines.push_back(fmt::format("{}|{}", rank, line));
  };
  LaunchResult result = launch(options);
  EXPECT_EQ(result.exit_code, 0) << result.message;
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Launcher, TellsEveryRankWhoItIs) {
  auto options = script(3, "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $EXTRA ${#TOMBOLO_SECRET}");
  options.environment = {{"EXTRA", "more"}};
  EXPECT_EQ(sorted_lines(options),
            (std::vector<std::string>{"0|0 3 0 127.0.0.1 more 32", "1|1 3 1 127.0.0.1 more 32",
                                      "2|2 3 2 127.0.0.1 more 32"}));
}

TEST(Launcher, GivesAllRanksOneFreePortAndOneSecretPerRun) {
  auto lines = sorted_lines(script(2, "echo $MASTER_PORT $TOMBOLO_SECRET"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].substr(2), lines[1].substr(2));
  EXPECT_NE(sorted_lines(script(1, "echo $TOMBOLO_SECRET")), sorted_lines(script(1, "echo $TOMBOLO_SECRET")));

  int port = std::stoi(lines[0].substr(2));
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << port;
}

TEST(Launcher, PassesOnLinesWithoutAnEndAndBothStreams) {
  auto lines = sorted_lines(script(1, "printf 'no end'; echo error >&2"));
  EXPECT_EQ(lines, (std::vector<std::string>{"0|error", "0|no end"}));
}

TEST(Launcher, NamesTheFirstRankThatFailsItsCodeAndItsLastLines) {
  Folder folder;
  auto options = script(
      3, "touch $F/$$; if [ $RANK = 1 ]; then sleep 0.1; echo it broke >&2; exit 7; fi; exec sleep 600");
  options.environment = {{"F", folder.path().string()}};
  LaunchResult result = launch(options);
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.failed_rank, 1);
  EXPECT_EQ(result.last_lines, std::vector<std::string>{"it broke"});
  EXPECT_NE(result.message.find("rank 1 ended with exit code 7"), std::string::npos) << result.message;
  for (pid_t pid : folder.pids()) EXPECT_FALSE(is_running(pid)) << pid;
}

TEST(Launcher, KillsRanksThatDoNotHeedTheRequestToEnd) {
  Folder folder;
  auto options = script(2,
                        "trap '' TERM; touch $F/$$; if [ $RANK = 0 ]; then "
                        "while [ $(ls $F | wc -l) -lt 2 ]; do sleep 0.01; done; exit 3; fi; "
                        "while true; do sleep 0.05; done");
  options.environment = {{"F", folder.path().string()}};
  LaunchResult result = launch(options);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(folder.pids().size(), 2U);
  for (pid_t pid : folder.pids()) EXPECT_FALSE(is_running(pid)) << pid;
}

TEST(Launcher, TellsASignalAs128PlusItsNumber) {
  LaunchResult result = launch(script(1, "kill -SEGV $$"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_NE(result.message.find("was killed by signal 11"), std::string::npos) << result.message;
}

TEST(Launcher, EndsTheRanksAfterTheTimeout) {
  auto options = script(2, "exec sleep 600");
  options.timeout = std::chrono::milliseconds(200);
  LaunchResult result = launch(options);
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_NE(result.message.find("200 ms"), std::string::npos) << result.message;
}

TEST(Launcher, LeavesNothingThatARankStartedInTheBackground) {
  Folder folder;
  auto options = script(2, "sleep 600 & touch $F/$!");
  options.environment = {{"F", folder.path().string()}};
  EXPECT_EQ(launch(options).exit_code, 0);
  ASSERT_EQ(folder.pids().size(), 2U);
  for (pid_t pid : folder.pids()) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
}

TEST(Launcher, RefusesWhatCannotBeStarted) {
  auto options = script(1, "true");
  options.program = {"no-such-program-here"};
  EXPECT_THROW(launch(options), Error);
  options = script(0, "true");
  EXPECT_THROW(launch(options), Error);
  options = script(2, "true");
  options.rank_hosts = {"a0", "a1"};
  EXPECT_THROW(launch(options), Error);
}

// From here on the tests run `tombolo run` as a process of its own.

struct Started {
  pid_t pid = -1;
  Descriptor output;
  Started() = default;
  Started(Started&& other) noexcept : pid(std::exchange(other.pid, -1)), output(std::move(other.output)) {}
  ~Started() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

Started start_command(std::vector<std::string> arguments) {
  Pipe out = make_pipe();
  Started started;
  arguments.insert(arguments.begin(), TOMBOLO_PROGRAM);
  std::vector<char*> argv;
  for (auto& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  started.pid = ::fork();
  if (started.pid == 0) {
    ::setpgid(0, 0);
    take_interrupts();
    ::dup2(out.write.get(), STDOUT_FILENO);
    ::dup2(out.write.get(), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  started.output = std::move(out.read);
  return started;
}

int finish(Started& started) {
  int status = 0;
  bool ended = eventually([&] { return ::waitpid(started.pid, &status, WNOHANG) == started.pid; });
  EXPECT_TRUE(ended) << "the command did not end";
  if (ended) started.pid = -1;
  return exit_code_of(status);
}

class Interrupted : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Interrupted, EndsAllRanksAndSaysSoInItsExitCode) {
  auto [number, code] = GetParam();
  Folder folder;
  auto command = start_command({"run", "-n", "3", "--env", "F=" + folder.path().string(), "--", "sh", "-c",
                                "touch $F/$$; exec sleep 600"});
  ASSERT_TRUE(eventually([&] { return folder.pids().size() == 3; }));
  ::kill(command.pid, number);
  EXPECT_EQ(finish(command), code);
  for (pid_t pid : folder.pids()) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupted,
                         ::testing::Values(std::pair{SIGINT, 130}, std::pair{SIGTERM, 143},
                                           std::pair{SIGKILL, 137}));

/// A rank that saves its work when it is asked to end, and says in files how far it has come.
std::vector<std::string> saving_rank(const Folder& folder, const char* grace) {
  return {"run",
          "--grace",
          grace,
          "--env",
          "F=" + folder.path().string(),
          "--",
          "sh",
          "-c",
          "trap 'touch $F/saving; while [ ! -e $F/disk ]; do sleep 0.01; done; touch $F/saved; exit 0' HUP "
          "INT TERM; "
          "touch $F/ready; while true; do sleep 0.01; done"};
}

TEST(RunCommand, ARankThatIsSavingHasTheGraceToEnd) {
  Folder folder;
  auto command = start_command(saving_rank(folder, "600"));
  ASSERT_TRUE(eventually([&] { return folder.has("ready"); }));
  ::kill(command.pid, SIGTERM);
  ASSERT_TRUE(eventually([&] { return folder.has("saving"); }));
  std::ofstream(folder.path() / "disk") << "free again";
  EXPECT_EQ(finish(command), 143);
  EXPECT_TRUE(folder.has("saved"));
}

TEST(RunCommand, ASecondSignalEndsARankThatIsSaving) {
  Folder folder;
  auto command = start_command(saving_rank(folder, "600"));
  ASSERT_TRUE(eventually([&] { return folder.has("ready"); }));
  ::kill(command.pid, SIGTERM);
  ASSERT_TRUE(eventually([&] { return folder.has("saving"); }));
  std::this_thread::sleep_for(kRepeatedSignal);  // from here on it is no repetition
  ::kill(command.pid, SIGTERM);
  EXPECT_EQ(finish(command), 143);
  EXPECT_FALSE(folder.has("saved"));
}

TEST(RunCommand, ARepeatedSignalLeavesARankThatIsSavingItsTime) {
  Folder folder;
  auto command = start_command(saving_rank(folder, "600"));
  ASSERT_TRUE(eventually([&] { return folder.has("ready"); }));
  // All are there when it goes on, so that it hears them at one time.
  for (const int number : {SIGSTOP, SIGTERM, SIGHUP, SIGINT, SIGCONT}) ::kill(command.pid, number);
  ASSERT_TRUE(eventually([&] { return folder.has("saving"); }));
  std::ofstream(folder.path() / "disk") << "free again";
  EXPECT_EQ(finish(command), 128 + SIGHUP) << "the lowest number comes first";
  EXPECT_TRUE(folder.has("saved"));
}

TEST(RunCommand, TheGraceIsBounded) {
  Folder folder;
  auto command = start_command(saving_rank(folder, "0.2"));
  ASSERT_TRUE(eventually([&] { return folder.has("ready"); }));
  ::kill(command.pid, SIGTERM);
  EXPECT_EQ(finish(command), 143);
  EXPECT_FALSE(folder.has("saved"));
}

TEST(RunCommand, AReaderThatGoesAwayLeavesTheRanksToFinish) {
  Folder folder;
  const std::string f = folder.path().string();
  auto done = run_program(
      {"/bin/sh", "-c",
       fmt::format(
           "('{}' run -n 2 --env F={} -- sh -c 'echo first; while [ ! -e $F/go ]; do sleep 0.01; done; "
           "echo second; echo third; touch $F/$$'; echo $? > {}/code) | {{ head -n 1; exec <&-; "
           "touch {}/go; }}",
           TOMBOLO_PROGRAM, f, f, f)},
      "", std::chrono::seconds(30));
  EXPECT_EQ(done.exit_code, 0) << done.error;
  EXPECT_TRUE(done.output == "[0] first\n" || done.output == "[1] first\n") << done.output;
  int code = -1;
  std::ifstream(folder.path() / "code") >> code;
  EXPECT_EQ(code, 0) << done.error;
  EXPECT_EQ(folder.pids().size(), 2U);
}

TEST(Launcher, GivesRanksTheSignalsItWasGivenItself) {
  auto ignored = [](std::string_view line) {
    return std::stoull(std::string(line.substr(line.rfind('\t') + 1)), nullptr, 16) & (1ULL << (SIGPIPE - 1));
  };
  std::ifstream status("/proc/self/status");
  std::string own;
  while (std::getline(status, own) && !own.starts_with("SigIgn:")) {
  }
  auto lines = sorted_lines(script(1, "grep SigIgn /proc/$$/status"));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(ignored(lines[0]), ignored(own)) << lines[0];
}

TEST(RunCommand, PrefixesEveryLineWithItsRank) {
  auto done = run_program({TOMBOLO_PROGRAM, "run", "-n", "2", "--", "sh", "-c", "echo hello; echo there"}, "",
                          std::chrono::seconds(30));
  EXPECT_EQ(done.exit_code, 0) << done.error;
  for (const char* line : {"[0] hello\n", "[0] there\n", "[1] hello\n", "[1] there\n"}) {
    EXPECT_NE(done.output.find(line), std::string::npos) << line << done.output;
  }
  EXPECT_EQ(done.output.size(), 40U) << done.output;
}

TEST(RunCommand, PrintsOnlyRankZeroWhenQuiet) {
  auto done = run_program({TOMBOLO_PROGRAM, "run", "-n", "3", "--quiet", "--", "sh", "-c", "echo rank $RANK"},
                          "", std::chrono::seconds(30));
  EXPECT_EQ(done.output, "rank 0\n") << done.error;
}

TEST(RunCommand, FailsWithTheRanksExitCodeAndSaysWhy) {
  auto done = run_program({TOMBOLO_PROGRAM, "run", "-n", "2", "--quiet", "--", "sh", "-c",
                           "[ $RANK = 1 ] && { echo no disk; exit 5; }; exec sleep 600"},
                          "", std::chrono::seconds(30));
  EXPECT_EQ(done.exit_code, 5);
  EXPECT_NE(done.error.find("tombolo run: rank 1 ended with exit code 5; its last lines:\n    no disk"),
            std::string::npos)
      << done.error;
}

TEST(RunCommand, RejectsBadUsageWithCodeTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run"},
                                             {"run", "-n", "0", "--", "true"},
                                             {"run", "--", "no-such-program-here"},
                                             {"run", "--emulate", "moon", "--", "true"},
                                             {"run", "--order", "block", "--", "true"},
                                             {"run", "--env", "broken", "--", "true"},
                                             {"run", "--grace", "0", "--", "true"},
                                             {"run", "--emulate", "holmes", "--order", "z9", "--", "true"},
                                             {"run", "--routing", "best", "--", "true"}}) {
    std::vector<std::string> command{TOMBOLO_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    auto done = run_program(command, "", std::chrono::seconds(30));
    EXPECT_EQ(done.exit_code, 2) << fmt::format("{}", fmt::join(arguments, " ")) << ": " << done.error;
    EXPECT_NE(done.error.find("tombolo run: "), std::string::npos) << done.error;
  }
}

TEST(RunCommand, EmulatesOnLoopbackWhereNamespacesAreNotWanted) {
  auto done =
      run_program({TOMBOLO_PROGRAM, "run", "--emulate", "holmes", "--emulation-mode", "loopback", "--", "sh",
                   "-c", "echo $TOMBOLO_HOST $MASTER_ADDR $TOMBOLO_NIC_LIMITS; test -s $TOMBOLO_CLUSTER"},
                  "", std::chrono::seconds(30));
  EXPECT_EQ(done.exit_code, 0) << done.error;
  EXPECT_NE(done.output.find("[3] b1 127.77.1.1 fast0=4000000000,eth0=100000000\n"), std::string::npos)
      << done.output;
  EXPECT_NE(done.error.find("WITHOUT network namespaces"), std::string::npos) << done.error;

  auto refused = run_program(
      {TOMBOLO_PROGRAM, "run", "--emulate", "two-clusters", "--emulation-mode", "loopback", "--", "true"}, "",
      std::chrono::seconds(30));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.error.find("needs network namespaces"), std::string::npos) << refused.error;
}

}  // namespace
}  // namespace tombolo::tools
