// Runs ranks as real processes: the C program c_ranks, with the variables that a launcher sets.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
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

/// As c_ranks makes it.
int exit_code(tomboloResult_t result) {
  return result < tomboloTimeout ? 100 + result : 200 + result - tomboloTimeout;
}

using Variables = std::map<std::string, std::string>;

/// One child with its output. The destructor kills and reaps a child that still runs.
class Rank {
 public:
  /// Starts the program as a launcher does; `more` replaces variables of the same names.
  Rank(int rank, int size, int port, const char* mode, const Variables& more)
      : Rank({mode}, replaced({{"RANK", std::to_string(rank)},
                               {"WORLD_SIZE", std::to_string(size)},
                               {"LOCAL_RANK", std::to_string(rank)},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", std::to_string(port)},
                               {"TOMBOLO_SECRET", "process test"}},
                              more)) {}
  Rank(std::vector<std::string> words, const Variables& variables) {
    int pipe[2];
    EXPECT_EQ(0, ::pipe2(pipe, O_CLOEXEC));
    std::vector<std::string> environment;
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    const auto pointers_to = [](std::vector<std::string>& texts) {
      std::vector<char*> pointers;
      for (auto& one : texts) pointers.push_back(one.data());
      pointers.push_back(nullptr);
      return pointers;
    };
    const std::string program = TOMBOLO_C_RANKS;
    words.insert(words.begin(), program);
    const auto arguments = pointers_to(words), pointers = pointers_to(environment);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(pipe[1], 1);
      ::dup2(pipe[1], 2);
      ::execve(program.c_str(), arguments.data(), pointers.data());
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

  /// Reads until `word` has come; false at the end of the output or after kPatience.
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
  static Variables replaced(Variables variables, const Variables& more) {
    for (const auto& [name, value] : more) variables[name] = value;
    return variables;
  }
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

std::vector<std::unique_ptr<Rank>> start(int size, const char* mode, const Variables& more = {}) {
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

// Kills each rank in turn, also the one that holds the store.
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
      EXPECT_EQ(ranks[rank]->wait(deadline), exit_code(tomboloRemoteError)) << ranks[rank]->text();
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
  ranks[1]->kill(SIGSTOP);  // its kernel still acknowledges, so that only the deadline finds it
  for (const std::size_t rank : {0U, 2U}) {
    const int code = ranks[rank]->wait(deadline);
    EXPECT_TRUE(code == exit_code(tomboloTimeout) || code == exit_code(tomboloRemoteError))
        << code << ranks[rank]->text();
    EXPECT_NE(ranks[rank]->text().find("rank 1"), std::string::npos) << ranks[rank]->text();
  }
  ranks[1]->kill(SIGKILL);
}

TEST(MissingRank, IsNamed) {
  const int port = free_port();
  Rank alone(0, 3, port, "all", {{"TOMBOLO_DEADLINE", "1"}});
  EXPECT_EQ(alone.wait(Clock::now() + kPatience), exit_code(tomboloTimeout));
  EXPECT_NE(alone.text().find("ranks 1, 2 of 3 did not arrive within 1 s"), std::string::npos)
      << alone.text();
}

TEST(Environment, IsCheckedBeforeAnythingIsTried) {
  const int port = free_port();
  const auto expect_rejected = [&](int rank, const Variables& odd, const std::string& name) {
    Rank one(rank, 2, port, "all", odd);
    EXPECT_EQ(one.wait(Clock::now() + kPatience), exit_code(tomboloInvalidUsage)) << name;
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
        all.all_reduce(data);
        EXPECT_EQ(data.back(), 3.0);
        double from = -1, own = rank;
        api::group([&] {
          all.send(std::span(&own, 1), (rank + 1) % 3);
          all.receive(std::span(&from, 1), (rank + 2) % 3);
        });
        EXPECT_EQ(from, (rank + 2) % 3);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// torchrun users set no secret: the ranks still meet, and the data connections have one of their own.
TEST(CInterface, WorksWithoutASecret) {
  auto ranks = start(3, "all", {{"TOMBOLO_SECRET", ""}});
  const auto deadline = Clock::now() + kPatience;
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(deadline), 0) << rank->text();
}

// mpirun or a batch script may set rank variables of its own; ranks that meet by an id must not read them.
TEST(UniqueId, WorksWhateverLaunchersVariablesSay) {
  const Variables contradictory[] = {
      {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
      {{"WORLD_SIZE", "8"}},
      {{"RANK", "9"}, {"WORLD_SIZE", "8"}, {"MASTER_PORT", "many"}, {"SLURM_PROCID", "0"}},
      {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_NODELIST", "node["}}};
  int number = 0;
  for (const Variables& variables : contradictory) {
    const std::string path =
        testing::TempDir() + "tombolo_id_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(
          std::make_unique<Rank>(std::vector<std::string>{"id", std::to_string(rank), "2", path}, variables));
    }
    const auto deadline = Clock::now() + kPatience;
    for (auto& rank : ranks) EXPECT_EQ(rank->wait(deadline), 0) << rank->text();
    ::unlink(path.c_str());
  }
}

// Two ranks, each a thread with a communicator of its own id for every letter.
template <typename Body>
void run_pair(int communicators, const Body& body) {
  std::vector<tomboloUniqueId> ids(static_cast<std::size_t>(communicators));
  for (auto& id : ids) ASSERT_EQ(tomboloGetUniqueId(&id), tomboloSuccess) << tomboloGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<tomboloComm_t> all;
      for (const auto& id : ids) {
        all.push_back(nullptr);
        EXPECT_EQ(tomboloCommInitRank(&all.back(), 2, id, rank), tomboloSuccess)
            << tomboloGetLastError(nullptr);
        if (all.back() == nullptr) return;
      }
      body(all, rank);
      for (const auto one : all) EXPECT_EQ(tomboloCommDestroy(one), tomboloSuccess);
    });
  }
  for (auto& thread : threads) thread.join();
}

constexpr std::size_t kLarge = std::size_t{8} << 20;  // so large that it is not sent when the call returns

// The buffers of a group are free after its end, also where it failed in the middle (a sanitizer sees more).
TEST(Group, EndsAllThatItStartedBeforeItReturnsAFailure) {
  run_pair(2, [](const std::vector<tomboloComm_t>& all, int rank) {
    const auto fine = all[0], broken = all[1];
    EXPECT_EQ(tomboloCommAbort(broken), tomboloSuccess);
    {
      std::vector<char> out(kLarge, static_cast<char>('a' + rank)), in(kLarge), odd(100);
      tomboloGroupStart();
      EXPECT_EQ(tomboloSend(out.data(), out.size(), tomboloInt8, 1 - rank, fine), tomboloSuccess);
      EXPECT_EQ(tomboloSend(odd.data(), odd.size(), tomboloInt8, 1 - rank, broken), tomboloSuccess);
      EXPECT_EQ(tomboloRecv(in.data(), in.size(), tomboloInt8, 1 - rank, fine), tomboloSuccess);
      EXPECT_EQ(tomboloAllReduce(odd.data(), odd.data(), odd.size(), tomboloInt8, tomboloSum, broken),
                tomboloSuccess);
      EXPECT_EQ(tomboloGroupEnd(), tomboloAborted) << tomboloGetLastError(nullptr);
      EXPECT_EQ(std::count(in.begin(), in.end(), static_cast<char>('a' + 1 - rank)),
                static_cast<std::ptrdiff_t>(kLarge));
    }
    int sum = 1;  // nothing may be left that writes to freed memory
    EXPECT_EQ(tomboloAllReduce(&sum, &sum, 1, tomboloInt32, tomboloSum, fine), tomboloSuccess);
    EXPECT_EQ(sum, 2);
  });
}

TEST(Group, RefusesWrongArgumentsAtOnceAndKeepsTheRest) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int rank) {
    std::vector<char> out(kLarge, static_cast<char>('a' + rank)), in(kLarge);
    tomboloGroupStart();
    EXPECT_EQ(tomboloSend(out.data(), out.size(), tomboloInt8, 1 - rank, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloRecv(in.data(), in.size(), tomboloInt8, 1 - rank, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloAllReduce(out.data(), out.data() + 1, 9, tomboloInt8, tomboloSum, all[0]),
              tomboloInvalidUsage);
    EXPECT_EQ(tomboloReduce(out.data(), in.data(), 9, tomboloInt8, tomboloSum, 2, all[0]),
              tomboloInvalidUsage);
    EXPECT_EQ(tomboloAllToAll(out.data(), out.data(), 9, tomboloInt8, all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess) << tomboloGetLastError(nullptr);
    EXPECT_EQ(in.back(), 'a' + 1 - rank);
  });
}

TEST(Group, OfARankAloneGivesItsBuffersBackWhereMessagesDoNotMatch) {
  tomboloUniqueId id;
  tomboloComm_t alone;
  ASSERT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
  ASSERT_EQ(tomboloCommInitRank(&alone, 1, id, 0), tomboloSuccess) << tomboloGetLastError(nullptr);
  const auto exchange = [&](std::size_t sent, std::size_t received) {
    std::vector<char> out(sent, 'x'), in(received);
    tomboloGroupStart();
    tomboloSend(out.data(), sent, tomboloInt8, 0, alone);
    tomboloRecv(in.data(), received, tomboloInt8, 0, alone);
    const auto result = tomboloGroupEnd();
    EXPECT_EQ(in.back(), result == tomboloSuccess ? 'x' : '\0');
    return result;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(exchange(10, 20), tomboloInvalidUsage);
    EXPECT_NE(std::string(tomboloGetLastError(nullptr)).find("10 bytes"), std::string::npos)
        << tomboloGetLastError(nullptr);
    EXPECT_EQ(exchange(20, 20), tomboloSuccess) << tomboloGetLastError(nullptr);
  }
  EXPECT_EQ(tomboloCommDestroy(alone), tomboloSuccess);
}

// ---- handles: nothing is done with one that was destroyed (an address sanitizer would see it)

tomboloComm_t rank_alone() {
  tomboloUniqueId id;
  tomboloComm_t comm = nullptr;
  EXPECT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
  EXPECT_EQ(tomboloCommInitRank(&comm, 1, id, 0), tomboloSuccess) << tomboloGetLastError(nullptr);
  return comm;
}

void expect_last_error(const std::string& words) {
  EXPECT_NE(std::string(tomboloGetLastError(nullptr)).find(words), std::string::npos)
      << tomboloGetLastError(nullptr);
}

TEST(Handle, IsRefusedByEveryFunctionOnceItIsDestroyed) {
  const auto gone = rank_alone();
  ASSERT_EQ(tomboloCommDestroy(gone), tomboloSuccess);
  const auto other = rank_alone();  // its handle must not be the same
  EXPECT_NE(other, gone);
  int value = 0;
  const char* name = nullptr;
  tomboloComm_t made = nullptr;
  tomboloResult_t error = tomboloSuccess;
  EXPECT_EQ(tomboloCommDestroy(gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommCount(gone, &value), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommUserRank(gone, &value), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommLastAlgorithm(gone, &name), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommGetAsyncError(gone, &error), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommSplit(gone, 0, 0, &made), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommFinalize(gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloCommAbort(gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloAllReduce(&value, &value, 1, tomboloInt32, tomboloSum, gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloSend(&value, 1, tomboloInt32, 0, gone), tomboloInvalidArgument);
  expect_last_error("no such communicator");
  EXPECT_EQ(tomboloCommDestroy(other), tomboloSuccess);
}

TEST(Group, RefusesACommunicatorThatIsDestroyedBeforeItOrInIt) {
  const auto gone = rank_alone(), kept = rank_alone();
  int one = 1, two = 2, sum = 0;
  ASSERT_EQ(tomboloGroupStart(), tomboloSuccess);
  EXPECT_EQ(tomboloAllReduce(&one, &sum, 1, tomboloInt32, tomboloSum, gone), tomboloSuccess);
  EXPECT_EQ(tomboloSend(&one, 1, tomboloInt32, 0, gone), tomboloSuccess);
  EXPECT_EQ(tomboloRecv(&sum, 1, tomboloInt32, 0, gone), tomboloSuccess);
  EXPECT_EQ(tomboloAllReduce(&two, &sum, 1, tomboloInt32, tomboloSum, kept), tomboloSuccess);
  EXPECT_EQ(tomboloCommDestroy(gone), tomboloSuccess);
  EXPECT_EQ(tomboloSend(&one, 1, tomboloInt32, 0, gone), tomboloInvalidArgument);
  EXPECT_EQ(tomboloGroupEnd(), tomboloInvalidUsage);
  expect_last_error("destroyed");
  EXPECT_EQ(sum, 2) << "the other communicator's call is made";
  EXPECT_EQ(tomboloCommDestroy(kept), tomboloSuccess);
}

TEST(Group, RefusesWhatItCannotHold) {
  const auto comm = rank_alone();
  tomboloComm_t made = nullptr;
  tomboloUniqueId id;
  ASSERT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
  ASSERT_EQ(tomboloGroupStart(), tomboloSuccess);
  EXPECT_EQ(tomboloCommInitRank(&made, 1, id, 0), tomboloInvalidUsage);
  EXPECT_EQ(tomboloCommSplit(comm, 0, 0, &made), tomboloInvalidUsage);
  EXPECT_EQ(tomboloCommFinalize(comm), tomboloInvalidUsage);
  expect_last_error("tomboloCommFinalize");
  EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess);
  EXPECT_EQ(tomboloCommDestroy(comm), tomboloSuccess);
}

TEST(Group, DiscardForgetsWhatItsOwnGroupRecorded) {
  const auto comm = rank_alone();
  int one = 1, outer = 0, inner = 0;
  EXPECT_EQ(tomboloGroupDiscard(), tomboloInvalidUsage) << "without a group";
  tomboloGroupStart();
  tomboloAllReduce(&one, &outer, 1, tomboloInt32, tomboloSum, comm);
  tomboloGroupStart();
  tomboloAllReduce(&one, &inner, 1, tomboloInt32, tomboloSum, comm);
  tomboloSend(&one, 1, tomboloInt32, 0, comm);
  EXPECT_EQ(tomboloGroupDiscard(), tomboloSuccess);
  EXPECT_EQ(tomboloGroupEnd(), tomboloSuccess) << tomboloGetLastError(nullptr);
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 0);
  EXPECT_EQ(tomboloCommDestroy(comm), tomboloSuccess);
}

TEST(Finalize, IsTheLastCall) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int) {
    int one = 1;
    tomboloComm_t part = nullptr;
    tomboloResult_t error = tomboloInternalError;
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, all[0]), tomboloSuccess);
    EXPECT_EQ(tomboloCommFinalize(all[0]), tomboloSuccess) << tomboloGetLastError(nullptr);
    EXPECT_EQ(tomboloCommFinalize(all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloSend(&one, 1, tomboloInt32, 0, all[0]), tomboloInvalidUsage);
    EXPECT_EQ(tomboloCommSplit(all[0], 0, 0, &part), tomboloInvalidUsage);
    expect_last_error("finalized");
    EXPECT_EQ(tomboloCommGetAsyncError(all[0], &error), tomboloSuccess);
    EXPECT_EQ(error, tomboloSuccess);
    EXPECT_EQ(tomboloCommCount(all[0], &one), tomboloSuccess);
    EXPECT_EQ(one, 2);
  });
}

TEST(AsyncError, IsWhatMadeTheCommunicatorUnusable) {
  run_pair(1, [](const std::vector<tomboloComm_t>& all, int rank) {
    tomboloResult_t error = tomboloInternalError;
    EXPECT_EQ(tomboloCommGetAsyncError(all[0], &error), tomboloSuccess);
    EXPECT_EQ(error, tomboloSuccess);
    if (rank == 0) {
      EXPECT_EQ(tomboloCommAbort(all[0]), tomboloSuccess);
    }
    int one = 1;
    EXPECT_EQ(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, all[0]), tomboloAborted);
    EXPECT_EQ(tomboloCommGetAsyncError(all[0], &error), tomboloSuccess);
    EXPECT_EQ(error, tomboloAborted);
    EXPECT_EQ(tomboloCommFinalize(all[0]), tomboloAborted);
  });
}

// ---- settings

TEST(Config, IsCheckedFieldByField) {
  const auto result_of = [](auto change) {
    tomboloUniqueId id;
    tomboloComm_t comm = nullptr;
    EXPECT_EQ(tomboloGetUniqueId(&id), tomboloSuccess);
    tomboloConfig_t config = TOMBOLO_CONFIG_INITIALIZER;
    change(config);
    const auto result = tomboloCommInitRankConfig(&comm, 1, id, 0, &config);
    if (comm != nullptr) tomboloCommDestroy(comm);
    return result;
  };
  EXPECT_EQ(result_of([](tomboloConfig_t&) {}), tomboloSuccess);
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.blocking = 1; }), tomboloSuccess);
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config = {}; }), tomboloInvalidArgument);
  expect_last_error("TOMBOLO_CONFIG_INITIALIZER");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.size += 8; }), tomboloInvalidArgument);
  expect_last_error("version");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.blocking = 0; }), tomboloInvalidArgument);
  expect_last_error("config.blocking=0");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.deadline = 0; }), tomboloInvalidUsage);
  expect_last_error("config.deadline=0");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.routing = "fast"; }), tomboloInvalidUsage);
  expect_last_error("config.routing='fast'");
  EXPECT_EQ(result_of([](tomboloConfig_t& config) { config.algorithm = "doubling"; }), tomboloInvalidUsage);
  expect_last_error("auto|");
}

TEST(Config, IsHonoured) {
  const tomboloUniqueId id = api::make_unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        tomboloConfig_t config = api::default_config();
        config.algorithm = "ring";
        config.deadline = 30;
        const api::Communicator all(2, id, rank, config);
        std::vector<float> data(3, 1);
        all.all_reduce(data);
        EXPECT_EQ(all.last_algorithm(), "ring");  // by itself it takes another for so few bytes
        const api::Communicator part = all.split(0, rank);
        part.all_reduce(data);
        EXPECT_EQ(part.last_algorithm(), "ring");
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// A deadline of its own, on the only rank of two that comes.
TEST(Config, ItsDeadlineEndsTheWaitForAMissingRank) {
  const tomboloUniqueId id = api::make_unique_id();
  tomboloConfig_t config = TOMBOLO_CONFIG_INITIALIZER;
  config.deadline = 0.2;
  tomboloComm_t comm = nullptr;
  EXPECT_EQ(tomboloCommInitRankConfig(&comm, 2, id, 0, &config), tomboloTimeout);
  expect_last_error("rank 1 of 2 did not arrive");
}

// ---- C++

TEST(CppInterface, TakesEveryCollectiveOnSpans) {
  constexpr int kRanks = 3;
  const tomboloUniqueId id = api::make_unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const api::Communicator all(kRanks, id, rank);
        using Vector = std::vector<std::int32_t>;
        const Vector own{rank, rank + 10};
        Vector wide{0, 1, 2, 3, 4, 5}, out(2), wide_out(6);
        all.all_reduce(own, out);
        EXPECT_EQ(out, (Vector{3, 33}));
        all.all_reduce(std::span(out).first(1), tomboloMax);
        EXPECT_EQ(out.front(), 3);
        all.reduce_scatter(wide, out, tomboloSum);
        EXPECT_EQ(out, (Vector{6 * rank, 6 * rank + 3}));
        all.all_gather(own, wide_out);
        EXPECT_EQ(wide_out, (Vector{0, 10, 1, 11, 2, 12}));
        all.broadcast(own, out, 2);
        EXPECT_EQ(out, (Vector{2, 12}));
        out = own;
        all.broadcast(out, 1);
        EXPECT_EQ(out, (Vector{1, 11}));
        out.assign(rank == 0 ? 2 : 0, -1);  // only the root's is used
        all.reduce(own, out, tomboloMin, 0);
        if (rank == 0) {
          EXPECT_EQ(out, (Vector{0, 10}));
        }
        all.gather(own, wide_out, 1);
        if (rank == 1) {
          EXPECT_EQ(wide_out, (Vector{0, 10, 1, 11, 2, 12}));
        }
        out.resize(2);
        all.scatter(rank == 2 ? wide : Vector{}, out, 2);
        EXPECT_EQ(out, (Vector{2 * rank, 2 * rank + 1}));
        all.all_to_all(std::array{rank, rank, rank}, std::span(wide_out).first(3));
        EXPECT_EQ(Vector(wide_out.begin(), wide_out.begin() + 3), (Vector{0, 1, 2}));
        all.barrier();
        all.finalize();
        EXPECT_EQ(all.async_error(), tomboloSuccess);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

template <typename Action>
void expect_refused(const Action& action, const std::string& words) {
  try {
    action();
    ADD_FAILURE() << "expected: " << words;
  } catch (const api::Error& error) {
    EXPECT_EQ(error.result(), tomboloInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(CppInterface, RefusesLengthsThatDoNotFitTogether) {
  const api::Communicator alone(1, api::make_unique_id(), 0);
  const std::vector<float> two(2);
  std::vector<float> three(3);
  expect_refused([&] { alone.all_reduce(two, three); },
                 "all_reduce: the send buffer has 2 elements, expected 3");
  expect_refused([&] { alone.reduce_scatter(two, three); }, "reduce_scatter: the send buffer");
  expect_refused([&] { alone.all_gather(two, three); }, "all_gather: the receive buffer has 3");
  expect_refused([&] { alone.broadcast(two, three, 0); }, "broadcast: the send buffer");
  expect_refused([&] { alone.reduce(two, three, tomboloSum, 0); }, "reduce: the receive buffer");
  expect_refused([&] { alone.gather(two, three, 0); }, "gather: the receive buffer");
  expect_refused([&] { alone.scatter(two, three, 0); }, "scatter: the send buffer");
  expect_refused([&] { alone.all_to_all(two, three); }, "all_to_all: the receive buffer");
}

TEST(CppInterface, AnExceptionInAGroupDiscardsIt) {
  const api::Communicator alone(1, api::make_unique_id(), 0);
  const std::vector<int> in{7};
  std::vector<int> out{0};
  EXPECT_THROW(api::group([&] {
                 alone.all_reduce(in, out);
                 alone.send(in, 0);  // which nothing receives: carried out, it would fail
                 throw std::runtime_error("the caller's own");
               }),
               std::runtime_error);
  EXPECT_EQ(out.front(), 0);
  alone.all_reduce(in, out);  // no group is open any more
  EXPECT_EQ(out.front(), 7);
}

TEST(CppInterface, AFailedCallInAGroupDiscardsIt) {
  api::Communicator alone(1, api::make_unique_id(), 0);
  std::vector<int> data{7};
  EXPECT_THROW(api::group([&] {
                 const api::Communicator ends_with_the_body = std::move(alone);
                 ends_with_the_body.all_reduce(data);
                 ends_with_the_body.send(data, 1);  // there is no such rank
               }),
               api::Error);
  EXPECT_EQ(tomboloGroupEnd(), tomboloInvalidUsage) << "no group is left open";
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
