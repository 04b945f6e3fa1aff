// What forks of a process with a store, or of one that uses it, must not do to the job.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/forked_child_test.h"
#include "base/sanitizer.h"
#include "base/unused_port_test.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/store_client.h"

namespace tombolo::collectives {
namespace {

using transport::Secret;

const Secret kForkSecret = Secret::from_text("open sesame");
constexpr auto kForkPatience = std::chrono::seconds(20);
constexpr unsigned kLongestLife = 120;  // seconds: no process of a test outlives this

std::unique_ptr<Store> client_of(int port) {
  return Store::connect("127.0.0.1", port, kForkSecret, Deadline::after(kForkPatience), Log());
}
std::unique_ptr<StoreWatch> watch_of(int port) {
  return store_at("127.0.0.1", port, kForkSecret)
      ->watch("abort", "present/1", Deadline::after(kForkPatience));
}
std::unique_ptr<StoreServer> server_at(int port) {
  return std::make_unique<StoreServer>("127.0.0.1", port, kForkSecret, Log());
}

template <typename Condition>
bool comes_true(Condition condition) {
  const auto deadline = Deadline::after(kForkPatience);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Two ends of numbers that processes tell each other.
class Numbers {
 public:
  Numbers() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Numbers() {
    end();
    ::close(ends_[0]);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  void tell(int number) const {
    EXPECT_EQ(::write(ends_[1], &number, sizeof number), ssize_t{sizeof number});
  }
  /// -1 where nobody can tell one any more.
  int hear() const {
    int number = 0;
    return ::read(ends_[0], &number, sizeof number) == ssize_t{sizeof number} ? number : -1;
  }
  /// This process will tell no more.
  void end() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// A forked child of the process that makes it, which does nothing for as long as this lives.
class IdleChild {
 public:
  IdleChild() : process_(fork()) {
    if (process_ != 0) {
      begun_.end();
      begun_.hear();
      return;
    }
    alarm(kLongestLife);
    begun_.tell(1);
    end_.end();
    end_.hear();
    _exit(0);
  }
  ~IdleChild() {
    end_.end();
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }
  IdleChild(const IdleChild&) = delete;
  IdleChild& operator=(const IdleChild&) = delete;

 private:
  Numbers begun_, end_;
  pid_t process_;
};

/// A rank that keeps what `make` returns, forks a child, as a data loader does, and is killed while that
/// child lives on. The child ends with this object.
class KilledRank {
 public:
  /// `make` is given the number that the test tells. The test hears what it adds to `said`, and then 1 from
  /// the child.
  template <typename Make>
  explicit KilledRank(Make make) : process_(fork()) {
    if (process_ != 0) return;
    try {
      alarm(kLongestLife);
      const auto kept = make(orders_.hear(), said_);
      if (fork() == 0) {
        alarm(kLongestLife);
        said_.tell(1);
        life_.end();
        life_.hear();
        _exit(0);
      }
      orders_.hear();
      ::kill(getpid(), SIGKILL);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank: %s\n", error.what());
    }
    _exit(1);
  }
  ~KilledRank() {
    if (process_ > 0) kill();
  }
  KilledRank(const KilledRank&) = delete;
  KilledRank& operator=(const KilledRank&) = delete;

  void tell(int number) { orders_.tell(number); }
  int hear() {
    said_.end();
    return said_.hear();
  }
  void kill() {
    ::kill(process_, SIGKILL);
    EXPECT_EQ(waitpid(process_, nullptr, 0), process_);
    process_ = -1;
  }

 private:
  Numbers orders_, said_, life_;
  pid_t process_;
};

TEST(StoreFork, AKilledRankIsAbsentThoughItsChildLives) {
  KilledRank rank([](int port, Numbers&) { return watch_of(port); });  // before this process has threads
  const auto server = server_at(0);
  rank.tell(server->port());
  ASSERT_EQ(rank.hear(), 1);
  const auto client = client_of(server->port());
  EXPECT_TRUE(client->try_get("present/1"));
  rank.kill();
  EXPECT_TRUE(comes_true([&] { return !client->try_get("present/1"); }));
}

TEST(StoreFork, TheStoreOfAKilledRankIsGoneThoughItsChildLives) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "a process forked from one with threads can start none under ThreadSanitizer";
  KilledRank rank([](int, Numbers& said) {
    auto server = server_at(0);
    said.tell(server->port());
    return server;
  });
  rank.tell(0);
  const int port = rank.hear();
  ASSERT_GT(port, 0);
  ASSERT_EQ(rank.hear(), 1);
  const auto watch = watch_of(port);
  rank.kill();
  EXPECT_TRUE(comes_true([&] { return watch->check() != StoreWatch::News::kNone; }));
  EXPECT_EQ(watch->check(), StoreWatch::News::kStoreLost);
  EXPECT_NO_THROW(server_at(port)) << "the next run of the job needs the port";
}

TEST(StoreFork, AChildKeepsNoPort) {
  auto server = server_at(unused_port());
  const int port = server->port();
  const auto client = client_of(port);
  const IdleChild child;
  server.reset();
  EXPECT_NO_THROW(server_at(port));
}

constexpr uid_t kNobody = 65534;

/// What a process does that may begin no thread at first; its exit code.
int serve_without_a_thread() {
  // The limit does not hold for root.
  if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return 1;
  rlimit usual{};
  getrlimit(RLIMIT_NPROC, &usual);
  rlimit none = usual;
  none.rlim_cur = 0;
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return 2;
  StoreServer server("127.0.0.1", 0, kForkSecret, Log(), StoreServer::Resolve(), StoreLimits(),
                     StoreServer::Begin::kOnDemand);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      server.serve();
      return 3;
    } catch (const Error& error) {
      if (error.cause() != Cause::kSystem) return 4;
    }
  }
  setrlimit(RLIMIT_NPROC, &usual);
  server.serve();
  server.serve();
  const auto first = client_of(server.port()), second = client_of(server.port());
  first->set("key", {});
  return second->try_get("key") ? 0 : 5;
}

TEST(StoreFork, AServerThatGotNoThreadServesOnceItGetsOne) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kLongestLife);
    int code = 6;
    try {
      code = serve_without_a_thread();
    } catch (const std::exception&) {
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Its exit handlers and the destructors of static objects find what the process had.
TEST(StoreFork, AChildThatExitsAsAProgramDoesLeavesTheStoreAlone) {
  static std::unique_ptr<StoreServer> server;
  static std::unique_ptr<Store> client;
  static std::unique_ptr<StoreWatch> watch;
  server = server_at(0);
  client = client_of(server->port());
  watch = watch_of(server->port());
  expect_forked_child_exits();
  EXPECT_TRUE(client->try_get("present/1"));
  EXPECT_EQ(client->add("count", 1), 1);
  EXPECT_EQ(client_of(server->port())->add("count", 1), 2) << "others still find it";
  EXPECT_EQ(watch->check(), StoreWatch::News::kNone);
  client->set("abort", {});
  EXPECT_TRUE(comes_true([&] { return watch->check() == StoreWatch::News::kValue; }));
  watch.reset();
  client.reset();
  server.reset();
}

TEST(StoreFork, AChildIsToldToMakeACommunicatorOfItsOwn) {
  const auto server = server_at(0);
  const auto client = client_of(server->port());
  const pid_t child = fork();
  if (child == 0) {
    alarm(kLongestLife);
    try {
      client->add("count", 1);
    } catch (const Error& error) {
      _exit(error.cause() == Cause::kInvalidUsage &&
                    std::string_view(error.what()).find("After fork()") != std::string_view::npos
                ? 0
                : 1);
    }
    _exit(2);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(client->add("count", 1), 1);
}

// A number that the store has given back may name a file of the program's.
TEST(StoreFork, AChildHasWhatTheProgramOpenedAfterTheStoreClosed) {
  {
    const auto server = server_at(0);
    const auto one = client_of(server->port()), two = client_of(server->port());
  }
  std::vector<int> files;
  for (int i = 0; i < 32; ++i) files.push_back(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const pid_t child = fork();
  if (child == 0) {
    char byte = 1;
    int strange = 0;
    for (const int file : files) strange += ::read(file, &byte, 1) != 1;
    _exit(strange);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int file : files) ::close(file);
}

std::set<int> given_to_programs() {
  std::set<int> given;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(one.path().filename());
    if (const int flags = ::fcntl(descriptor, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0)
      given.insert(descriptor);
  }
  return given;
}

TEST(StoreFork, NothingOfItIsGivenToAProgramThatARankRuns) {
  const std::set<int> before = given_to_programs();
  const auto server = server_at(0);
  const auto client = client_of(server->port());
  EXPECT_FALSE(client->try_get("color"));
  EXPECT_EQ(given_to_programs(), before);
}

}  // namespace
}  // namespace tombolo::collectives
