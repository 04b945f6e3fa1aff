// Ranks as real processes: the C program c_ranks under the variables that a launcher sets.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tombolo/tombolo.hpp"

namespace {

using namespace tombolo;
using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(60);

/// A port that was free a moment ago.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(0, ::bind(socket, reinterpret_cast<sockaddr*>(&address), size));
  EXPECT_EQ(0, ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size));
  ::close(socket);
  return ntohs(address.sin_port);
}

/// One child with its output. Killed, by its id, and reaped at the latest when this ends.
class Rank {
 public:
  Rank(int rank, int size, int port, const char* mode,
       const std::vector<std::pair<std::string, std::string>>& more) {
    int pipe[2];
    EXPECT_EQ(0, ::pipe2(pipe, O_CLOEXEC));
    std::vector<std::string> environment{
        "RANK=" + std::to_string(rank),        "WORLD_SIZE=" + std::to_string(size),
        "LOCAL_RANK=" + std::to_string(rank),  "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=" + std::to_string(port), "TOMBOLO_SECRET=process test"};
    for (const auto& [name, value] : more) environment.push_back(name + "=" + value);
    std::vector<char*> pointers;
    for (auto& one : environment) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    std::string program = TOMBOLO_C_RANKS, argument = mode;
    char* arguments[] = {program.data(), argument.data(), nullptr};
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(pipe[1], 1);
      ::dup2(pipe[1], 2);
      ::execve(program.c_str(), arguments, pointers.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~Rank() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    ::close(output_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void kill(int signal) { ::kill(process_, signal); }

  /// Reads until `word` has come; false at the end of the output or of patience.
  bool read_until(const std::string& word, Clock::time_point deadline) {
    while (text_.find(word) == std::string::npos) {
      if (!read_some(deadline)) return false;
    }
    return true;
  }

  /// The exit code, 128 + signal, or -1 when it still runs at the deadline.
  int wait(Clock::time_point deadline) {
    while (read_some(deadline)) {
    }
    int status = 0;
    for (;;) {
      const pid_t ended = ::waitpid(process_, &status, WNOHANG);
      if (ended == process_) break;
      if (Clock::now() > deadline) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  const std::string& text() const { return text_; }

 private:
  bool read_some(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd one{output_, POLLIN, 0};
    if (left <= 0 || ::poll(&one, 1, static_cast<int>(left)) <= 0) return false;
    char buffer[4096];
    const ssize_t got = ::read(output_, buffer, sizeof(buffer));
    if (got <= 0) return false;
    text_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  pid_t process_ = -1;
  int output_ = -1;
  std::string text_;
};

std::vector<std::unique_ptr<Rank>> start(int size, const char* mode,
                                         const std::vector<std::pair<std::string, std::string>>& more = {}) {
  const int port = free_port();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Rank>(rank, size, port, mode, more));
  return ranks;
}

TEST(CInterface, EveryFunctionWorksFromC) {
  for (const int size : {1, 2, 5}) {
    auto ranks = start(size, "all");
    const auto deadline = Clock::now() + kPatience;
    for (auto& rank : ranks) EXPECT_EQ(rank->wait(deadline), 0) << rank->text();
  }
}

// Whichever rank is killed, also the one that keeps the store.
TEST(KilledRank, FailsTheOthersInBoundedTimeAndIsNamed) {
  for (const std::size_t victim : {2U, 0U}) {
    auto ranks = start(4, "loop");
    auto deadline = Clock::now() + kPatience;
    for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready", deadline)) << rank->text();
    ranks[victim]->kill(SIGKILL);
    const auto killed = Clock::now();
    deadline = killed + std::chrono::seconds(20);  // well below the deadline of 60 s
    EXPECT_EQ(ranks[victim]->wait(deadline), 128 + SIGKILL);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks[rank]->wait(deadline), 100 + tomboloRemoteError) << ranks[rank]->text();
      EXPECT_NE(ranks[rank]->text().find("rank " + std::to_string(victim)), std::string::npos)
          << ranks[rank]->text();
    }
    RecordProperty("milliseconds_" + std::to_string(victim),
                   static_cast<int>((Clock::now() - killed) / std::chrono::milliseconds(1)));
  }
}

TEST(StoppedRank, IsNamedAfterTheDeadline) {
  auto ranks = start(3, "loop", {{"TOMBOLO_DEADLINE", "3"}});
  auto deadline = Clock::now() + kPatience;
  for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready", deadline)) << rank->text();
  ranks[1]->kill(SIGSTOP);  // its kernel still answers: only the deadline can tell
  for (const std::size_t rank : {0U, 2U}) {
    const int code = ranks[rank]->wait(deadline);
    EXPECT_TRUE(code == 100 + tomboloTimeout || code == 100 + tomboloRemoteError)
        << code << ranks[rank]->text();
    EXPECT_NE(ranks[rank]->text().find("rank 1"), std::string::npos) << ranks[rank]->text();
  }
  ranks[1]->kill(SIGKILL);
}

TEST(MissingRank, IsNamed) {
  const int port = free_port();
  Rank alone(0, 3, port, "all", {{"TOMBOLO_DEADLINE", "1"}});
  EXPECT_EQ(alone.wait(Clock::now() + kPatience), 100 + tomboloTimeout);
  EXPECT_NE(alone.text().find("ranks 1, 2 of 3 did not arrive within 1 s"), std::string::npos)
      << alone.text();
}

TEST(Environment, IsCheckedBeforeAnythingIsTried) {
  const int port = free_port();
  const auto expect_rejected = [&](int rank, const std::vector<std::pair<std::string, std::string>>& odd,
                                   const std::string& name) {
    Rank one(rank, 2, port, "all", odd);
    EXPECT_EQ(one.wait(Clock::now() + kPatience), 100 + tomboloInvalidUsage) << name;
    EXPECT_NE(one.text().find(name), std::string::npos) << one.text();
  };
  expect_rejected(7, {}, "RANK=7");
  expect_rejected(0, {{"TOMBOLO_ALGORITHM", "fastest"}}, "TOMBOLO_ALGORITHM='fastest'");
  expect_rejected(0, {{"TOMBOLO_ROUTING", ""}}, "TOMBOLO_ROUTING");
  expect_rejected(0, {{"TOMBOLO_SEGMENT", "0"}}, "TOMBOLO_SEGMENT");
}

TEST(CppInterface, MeetsByAUniqueId) {
  const tomboloUniqueId id = api::make_unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const api::Communicator all(3, id, rank);
        std::vector<double> data(1000, rank);
        all.all_reduce(data.data(), data.data(), data.size());
        EXPECT_EQ(data.back(), 3.0);
        double from = -1, own = rank;
        api::group([&] {
          all.send(&own, 1, tomboloFloat64, (rank + 1) % 3);
          all.receive(&from, 1, tomboloFloat64, (rank + 2) % 3);
        });
        EXPECT_EQ(from, (rank + 2) % 3);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(CppInterface, RejectsADamagedUniqueId) {
  tomboloUniqueId id{};
  try {
    const api::Communicator all(2, id, 0);
    FAIL();
  } catch (const api::Error& error) {
    EXPECT_EQ(error.result(), tomboloInvalidUsage);
  }
}

}  // namespace
