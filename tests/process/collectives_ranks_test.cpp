// Ranks as real processes: how they meet, and what becomes of the others where one dies, stops or does not
// come.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/process/rank_processes.h"

namespace tombolo::test {
namespace {

TEST(CInterface, EveryFunctionWorksFromC) {
  for (const int size : {1, 2, 5}) {
    for (const char* const progress : {"caller", "thread"}) {
      auto ranks = start(size, {"all"}, {{"TOMBOLO_PROGRESS", progress}});
      const auto deadline = Clock::now() + kPatience;
      for (auto& rank : ranks) EXPECT_EQ(rank->wait(deadline), 0) << rank->text();
    }
  }
}

TEST(KilledRank, IsLeftBehindByThoseThatShrink) {
  auto ranks = start(4, {"shrink"});
  auto deadline = Clock::now() + kPatience;
  for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready", deadline)) << rank->text();
  ranks[2]->kill(SIGKILL);
  deadline = Clock::now() + kPatience;
  EXPECT_EQ(ranks[2]->wait(deadline), 128 + SIGKILL);
  for (const std::size_t rank : {0U, 1U, 3U})
    EXPECT_EQ(ranks[rank]->wait(deadline), 0) << ranks[rank]->text();
  const std::string& text = ranks[0]->text();
  const std::size_t at = text.find("went on after ");
  ASSERT_NE(at, std::string::npos) << text;
  RecordProperty("milliseconds", text.substr(at + 14, text.find(' ', at + 14) - at - 14));
}

// A process is killed, the others go on without it, and then with a new one in its place.
TEST(KilledRank, IsReplacedByANewOne) {
  const std::string folder = ::testing::TempDir() + "tombolo_grow_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/id";
  auto ranks = start(4, {"grow", path});
  auto deadline = Clock::now() + kPatience;
  for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready", deadline)) << rank->text();
  const auto killed = Clock::now();
  const auto record = [&](const std::string& what) {
    RecordProperty(what, static_cast<int>((Clock::now() - killed) / std::chrono::milliseconds(1)));
  };
  ranks[2]->kill(SIGKILL);
  deadline = killed + kPatience;
  for (const std::size_t rank : {0U, 1U, 3U})
    ASSERT_TRUE(ranks[rank]->read_until("went on after", deadline)) << ranks[rank]->text();
  record("milliseconds_to_the_sum_after_the_shrink");
  Rank joining({"join", "3", "4", path}, {});
  for (const std::size_t rank : {0U, 1U, 3U})
    EXPECT_TRUE(ranks[rank]->read_until("grown", deadline)) << ranks[rank]->text();
  record("milliseconds_to_the_sum_after_the_growth");
  EXPECT_EQ(joining.wait(deadline), 0) << joining.text();
  for (const std::size_t rank : {0U, 1U, 3U})
    EXPECT_EQ(ranks[rank]->wait(deadline), 0) << ranks[rank]->text();
  std::filesystem::remove_all(folder);
}

// Kills each rank in turn, also the one that holds the store. That the others do not wait for their own
// deadlines is seen by these, which are far longer than this test waits.
TEST(KilledRank, FailsTheOthersInBoundedTimeAndIsNamed) {
  for (const std::size_t victim : {2U, 0U}) {
    auto ranks = start(4, {"loop"}, {{"TOMBOLO_DEADLINE", "600"}});
    auto deadline = Clock::now() + kPatience;
    for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready", deadline)) << rank->text();
    ranks[victim]->kill(SIGKILL);
    const auto killed = Clock::now();
    deadline = killed + kPatience;
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
  // It holds for the set-up, too, in which three processes must meet.
  auto ranks = start(3, {"loop"}, {{"TOMBOLO_DEADLINE", "10"}});
  auto deadline = Clock::now() + kPatience;
  for (auto& rank : ranks) ASSERT_TRUE(rank->read_until("ready", deadline)) << rank->text();
  deadline = Clock::now() + kPatience;
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
  const int port = unused_port();
  Rank alone(0, 3, port, {"all"}, {{"TOMBOLO_DEADLINE", "3"}});
  EXPECT_EQ(alone.wait(Clock::now() + kPatience), exit_code(tomboloTimeout));
  EXPECT_NE(alone.text().find("ranks 1, 2 of 3 did not arrive within 3 s"), std::string::npos)
      << alone.text();
}

TEST(Environment, IsCheckedBeforeAnythingIsTried) {
  const int port = unused_port();
  const auto expect_rejected = [&](int rank, const Variables& odd, const std::string& name) {
    Rank one(rank, 2, port, {"all"}, odd);
    EXPECT_EQ(one.wait(Clock::now() + kPatience), exit_code(tomboloInvalidUsage)) << name;
    EXPECT_NE(one.text().find(name), std::string::npos) << one.text();
  };
  expect_rejected(7, {}, "RANK=7");
  expect_rejected(0, {{"TOMBOLO_ALGORITHM", "fastest"}}, "TOMBOLO_ALGORITHM='fastest'");
  expect_rejected(0, {{"TOMBOLO_ROUTING", ""}}, "TOMBOLO_ROUTING");
  expect_rejected(0, {{"TOMBOLO_SEGMENT", "0"}}, "TOMBOLO_SEGMENT");
}

// torchrun users set no secret: the ranks still meet, and the data connections have one of their own.
TEST(CInterface, WorksWithoutASecret) {
  auto ranks = start(3, {"all"}, {{"TOMBOLO_SECRET", ""}});
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

}  // namespace
}  // namespace tombolo::test
