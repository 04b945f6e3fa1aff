// Tests the emulation in real namespaces: what it builds, the rates that pass, and that nothing is left
// behind.
#include "tools/emulation/emulation.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "tests/netns/on_host.h"
#include "tests/process/process_watch.h"
#include "tools/emulation/holder.h"
#include "tools/launch/launcher.h"
#include "tools/process/subprocess.h"

namespace tombolo::emulation {
namespace {

using tests::eventually;
using tests::Folder;
using tests::is_running;
using tests::on_host;
namespace fs = std::filesystem;

std::unique_ptr<Emulation> start(std::string_view spec) {
  return Emulation::start(Spec::from_text(spec), {Mode::kNamespaces, {}});
}

// The errno of connecting to a port without a listener: ECONNREFUSED means that the host was reached.
int connect_errno(const std::string& address) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  timeval limit{5, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(9);
  ::inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 ? 0 : errno;
}

// Inode numbers of the network namespaces that some process is in or keeps open.
std::set<std::string> network_namespaces() {
  std::set<std::string> all;
  std::error_code status;
  for (const auto& process : fs::directory_iterator("/proc", status)) {
    std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    auto link = fs::read_symlink(process.path() / "ns/net", status);
    if (!status) all.insert(link.string());
    for (const auto& file : fs::directory_iterator(process.path() / "fd", status)) {
      auto target = fs::read_symlink(file.path(), status).string();
      if (!status && target.starts_with("net:")) all.insert(target);
    }
  }
  return all;
}

std::string namespace_of(const Emulation& emulation, std::size_t host) {
  return fs::read_symlink(fmt::format("/proc/{}/fd/{}", emulation.holder(), namespace_descriptor(host)))
      .string();
}

TEST(Emulation, LeavesNoNamespaceNoProcessAndNoFile) {
  std::string directory;
  pid_t holder = -1;
  std::vector<std::string> namespaces;
  {
    auto emulation = start("holmes");
    directory = emulation->directory();
    holder = emulation->holder();
    for (std::size_t h = 0; h < 4; ++h) namespaces.push_back(namespace_of(*emulation, h));
    EXPECT_TRUE(fs::exists(directory));
    EXPECT_TRUE(is_running(holder));
    auto all = network_namespaces();
    for (const auto& each : namespaces) EXPECT_TRUE(all.contains(each)) << each;
    emulation->cluster().save(directory + "/cluster.json");
  }
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_FALSE(is_running(holder));
  auto all = network_namespaces();
  for (const auto& each : namespaces) EXPECT_FALSE(all.contains(each)) << each;
}

TEST(Emulation, VanishesWhenItsHolderIsKilled) {
  auto emulation = start("holmes");
  std::string of_first = namespace_of(*emulation, 0);
  ::kill(emulation->holder(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_running(emulation->holder()); }));
  EXPECT_FALSE(network_namespaces().contains(of_first));
  std::string directory = emulation->directory();
  emulation.reset();
  EXPECT_FALSE(fs::exists(directory));
}

TEST(Emulation, VanishesWhenItsOwnerIsKilled) {
  Folder folder;
  tools::Pipe told = tools::make_pipe();
  pid_t owner = ::fork();
  if (owner == 0) {
    auto emulation = start("two-clusters");
    std::string facts = fmt::format("{} {}\n", emulation->holder(), emulation->directory());
    [[maybe_unused]] ssize_t put = ::write(told.write.get(), facts.data(), facts.size());
    ::pause();
    ::_exit(0);
  }
  told.write.reset();
  std::array<char, 512> text{};
  ASSERT_GT(::read(told.read.get(), text.data(), text.size() - 1), 0);
  std::istringstream facts(text.data());
  pid_t holder = -1;
  std::string directory;
  facts >> holder >> directory;
  ASSERT_TRUE(is_running(holder));
  ASSERT_TRUE(fs::exists(directory));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !is_running(holder); }));
  EXPECT_TRUE(eventually([&] { return !fs::exists(directory); }));
}

TEST(Emulation, HasNoRouteBetweenTheFastFabrics) {
  auto emulation = start("holmes");
  auto reach = [&](std::size_t from, std::string host, std::string fabric) {
    std::string address = emulation->address(host, fabric);
    return on_host(*emulation, from, [&] { return connect_errno(address); });
  };
  EXPECT_EQ(reach(0, "a1", "A-ib"), ECONNREFUSED);
  EXPECT_EQ(reach(0, "b1", ""), ECONNREFUSED);
  EXPECT_EQ(reach(2, "b1", "B-roce"), ECONNREFUSED);
  EXPECT_EQ(reach(0, "b0", "B-roce"), ENETUNREACH);
  EXPECT_EQ(reach(3, "a0", "A-ib"), ENETUNREACH);
}

TEST(Emulation, HasLoopbackInsideEveryHost) {
  auto emulation = start("holmes:hosts=2");
  EXPECT_EQ(on_host(*emulation, 0, [] { return connect_errno("127.0.0.1"); }), ECONNREFUSED);
}

TEST(Emulation, SaysWhichHostsThereAre) {
  auto emulation = start("two-clusters:hosts=2");
  EXPECT_THROW(emulation->address("c0", ""), Error);
  EXPECT_THROW(emulation->address("a0", "B-roce"), Error);
  const auto& cluster = emulation->cluster();
  EXPECT_TRUE(cluster.emulated);
  ASSERT_EQ(cluster.hosts.size(), 2U);
  EXPECT_EQ(cluster.clusters(), (std::vector<std::string>{"A", "B"}));
  ASSERT_TRUE(cluster.shared_processor.has_value());
  EXPECT_EQ(cluster.shared_processor->hosts.size(), 2U);
}

// Runs `action` in a forked process; 77 from it means that this machine does not permit what it needs.
int in_process(const std::function<int()>& action) {
  pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(action());
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return tools::exit_code_of(status);
}

void write_text(const char* path, const std::string& text) {
  Descriptor file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) < 0) fail_errno(errno, path);
}

TEST(Emulation, NeedsNoRoot) {
  int code = in_process([] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
                             ::setresuid(kNobody, kNobody, kNobody) != 0)) {
      return 77;
    }
    ::setenv("TMPDIR", "/tmp", 1);
    if (!why_no_namespaces().empty()) return 77;
    auto emulation = start("holmes");
    std::string near = emulation->address("a1", "A-ib");
    std::string far = emulation->address("b1", "B-roce");
    if (on_host(*emulation, 0, [&] { return connect_errno(near); }) != ECONNREFUSED) return 2;
    if (on_host(*emulation, 0, [&] { return connect_errno(far); }) != ENETUNREACH) return 3;
    std::string directory = emulation->directory();
    emulation.reset();
    return fs::exists(directory) ? 4 : 0;
  });
  if (code == 77) GTEST_SKIP() << "ordinary users may not make user namespaces here";
  EXPECT_EQ(code, 0);
}

TEST(Emulation, FallsBackToLoopbackAndSaysWhyWhereNamespacesAreForbidden) {
  int code = in_process([] {
    // A user namespace in which no network namespace may be made: as in a locked-down container.
    std::string uid_map = fmt::format("0 {} 1", ::geteuid());
    if (::unshare(CLONE_NEWUSER) != 0) return 77;
    write_text("/proc/self/uid_map", uid_map);
    write_text("/proc/sys/user/max_net_namespaces", "0");
    if (why_no_namespaces().empty()) return 2;
    auto emulation = Emulation::start(Spec::from_text("holmes"), {std::nullopt, {}});
    if (emulation->mode() != Mode::kLoopback) return 3;
    const std::string& words = emulation->description();
    if (words.find("WITHOUT network namespaces") == std::string::npos ||
        words.find("not permitted") == std::string::npos) {
      fmt::print(stderr, "{}\n", words);
      return 4;
    }
    if (emulation->address("b1", "") != "127.77.1.4") return 5;
    if (emulation->free_port("b1", "") <= 0) return 6;
    auto variables = emulation->environment("b1", 2);
    if (variables.size() != 1 || variables[0].second != "fast0=2000000000,eth0=50000000") return 7;
    try {
      start("holmes");
      return 8;
    } catch (const Error& error) {
      return error.cause() == Cause::kUnsupported ? 0 : 9;
    }
  });
  if (code == 77) GTEST_SKIP() << "user namespaces are not permitted here";
  EXPECT_EQ(code, 0);
}

TEST(Emulation, EndsTheRanksWhenTheHolderIsKilled) {
  auto emulation = start("holmes");
  tools::LaunchOptions options;
  options.ranks = 4;
  options.program = {"sh", "-c", "echo ready; exec sleep 600"};
  options.output = tools::Output::kSilent;
  options.emulation = emulation.get();
  options.timeout = std::chrono::seconds(60);
  int ready = 0;
  options.on_line = [&](int, std::string_view) {
    if (++ready == 4) ::kill(emulation->holder(), SIGKILL);
  };
  auto result = tools::launch(options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.message.find("holder process has ended"), std::string::npos) << result.message;
}

TEST(Emulation, LeavesNothingWhenTheCommandIsKilled) {
  Folder folder;
  pid_t command = ::fork();
  if (command == 0) {
    int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    std::string variable = "F=" + folder.path().string();
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    ::execl(TOMBOLO_PROGRAM, TOMBOLO_PROGRAM, "run", "--emulate", "holmes", "--env", variable.c_str(), "--",
            "sh", "-c", "touch $F/$$; exec sleep 600", nullptr);
    ::_exit(127);
  }
  ASSERT_TRUE(eventually([&] { return folder.pids().size() == 4; }));
  std::set<std::string> inside;
  for (pid_t pid : folder.pids())
    inside.insert(fs::read_symlink(fmt::format("/proc/{}/ns/net", pid)).string());
  EXPECT_EQ(inside.size(), 4U);
  ::kill(command, SIGKILL);
  ::waitpid(command, nullptr, 0);
  for (pid_t pid : folder.pids()) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
  EXPECT_TRUE(eventually([&] {
    auto all = network_namespaces();
    return std::none_of(inside.begin(), inside.end(), [&](const auto& each) { return all.contains(each); });
  }));
  // Only the four files of the ranks are left in what was its TMPDIR.
  EXPECT_TRUE(eventually(
      [&] { return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 4; }));
}

// What a stream of 2 MB attains from host to host; bits per second.
double attained(const Emulation& emulation, std::size_t from, std::size_t to, const std::string& fabric) {
  auto [near, far] = tests::tcp_between(emulation, from, to, fabric);
  return tests::carry(near, far, 2'000'000, 1);
}

// So slow that the line limits the rate on any machine.
constexpr double kSlow = 8e6;
// The rate includes the bursts of 64 KiB that token buckets let pass.
constexpr double kMost = 1.1 * kSlow;

TEST(Emulation, LetsPassWhatWasDeclaredForANic) {
  auto emulation = start("holmes:slow=8mbit");
  const double slow = attained(*emulation, 0, 2, ""), fast = attained(*emulation, 0, 1, "A-ib");
  EXPECT_GT(slow, 0);
  EXPECT_LT(slow, kMost);
  EXPECT_GT(fast, 2 * kSlow);
}

TEST(Emulation, ShapesTheLinkBetweenTwoClusters) {
  auto emulation = start("two-clusters:rate=8mbit");
  const double across = attained(*emulation, 1, 3, ""), inside = attained(*emulation, 0, 1, "");
  EXPECT_GT(across, 0);
  EXPECT_LT(across, kMost);
  EXPECT_GT(inside, 2 * kSlow);
}

}  // namespace
}  // namespace tombolo::emulation

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (std::string refused = tombolo::emulation::why_no_namespaces(); !refused.empty()) {
    fmt::print("skipped: {}\n", refused);
    return 77;
  }
  return RUN_ALL_TESTS();
}
