// Checkpoints of one layout read into another. Ranks are threads; their bytes go over loopback.
#include "trainer/checkpoint/restore.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"
#include "trainer/checkpoint/stage_share.h"
#include "trainer/checkpoint/write_shard.h"
#include "trainer/testing/faulty_files.h"
#include "trainer/testing/marked_stage.h"

namespace tombolo::trainer {
namespace {

using collectives::Communicator;
using test::marked_shape;

/// Stages of equal numbers of layers; rank = stage x replicas + replica.
struct Layout {
  int stages, replicas;
  int ranks() const { return stages * replicas; }
  int layers() const { return marked_shape().layers / stages; }
};

/// The folder of a rank.
using RootOf = std::function<std::string(int rank)>;

class Restore : public testing::Test {
 protected:
  std::string root() const { return folder_.path().string(); }
  RootOf shared() const {
    return [root = root()](int) { return root; };
  }
  /// A folder for each rank, as on hosts with disks of their own.
  RootOf local() const {
    return [root = root()](int rank) {
      const std::string own = fmt::format("{}/host{}", root, rank);
      std::filesystem::create_directories(own);
      return own;
    };
  }

  static void write(const Layout& layout, const CheckpointId& id, const RootOf& root_of, int rank) {
    const auto stage =
        test::marked_stage(marked_shape(), rank / layout.replicas * layout.layers(), layout.layers());
    test::set_marks(*stage, id.step);
    const auto share = stage_share(stage->layout(), rank % layout.replicas, layout.replicas);
    ShardHeader header;
    header.id = id;
    header.shard = {rank, layout.ranks()};
    header.shape = marked_shape();
    header.pieces = shard_pieces(share);
    header.chunk_floats = 64;
    header.data_position = fmt::format(R"({{"step":{}}})", id.step);
    std::vector<float> data;
    for (const StageState state : kStageStates)
      for (const SharePiece& piece : share) {
        std::vector<float> values(piece.elements);
        stage->read_state(state, piece.offset, values);
        data.insert(data.end(), values.begin(), values.end());
      }
    test::HookedFiles files;
    ASSERT_EQ(write_shard(files, root_of(rank), header, data), "");
  }
  static void write(const Layout& layout, const CheckpointId& id, const RootOf& root_of) {
    for (int rank = 0; rank < layout.ranks(); ++rank) write(layout, id, root_of, rank);
  }

  struct Outcome {
    std::vector<FoundCheckpoint> found;
    RestoreResult result;  ///< of the newest whole one
  };

  /// Surveys and restores on every rank; what rank 0 found. All must find the same, and what is restored must
  /// be right on every rank.
  Outcome read(const Layout& layout, const RootOf& root_of) {
    std::mutex mutex;
    opens_.clear();
    std::vector<std::string> found_by_rank;
    Outcome outcome;
    const auto body = [&](Communicator* world) {
      const int rank = world == nullptr ? 0 : world->rank();
      test::HookedFiles files([&](std::string_view call, const std::string& path) {
        const std::scoped_lock lock(mutex);
        if (call == "open") ++opens_[std::filesystem::path(path).filename().string()];
        return 0;
      });
      const auto found = survey_checkpoints(root_of(rank), marked_shape(), world, files);
      if (world != nullptr) world->barrier();
      if (rank == 0) {
        const std::scoped_lock lock(mutex);
        surveys_opens_ = std::exchange(opens_, {});
      }
      if (world != nullptr) world->barrier();
      const auto whole = std::ranges::find(found, CheckpointCondition::kWhole, &FoundCheckpoint::condition);
      RestoreResult result;
      if (whole != found.end()) {
        const auto stage =
            test::marked_stage(marked_shape(), rank / layout.replicas * layout.layers(), layout.layers());
        result = restore_checkpoint(*whole, root_of(rank), *stage, world, files);
        if (result.faults.empty()) {
          EXPECT_EQ(test::wrong_marks(*stage, whole->id.step), 0U) << "rank " << rank;
        }
      }
      if (world != nullptr) world->barrier();
      const std::scoped_lock lock(mutex);
      std::string text;
      for (const FoundCheckpoint& one : found)
        text += fmt::format("{} {}\n", one.text(), static_cast<int>(one.condition));
      for (const std::string& fault : result.faults) text += fault + "\n";
      found_by_rank.push_back(text);
      if (rank == 0) outcome = {found, result};
    };
    if (layout.ranks() == 1) {
      body(nullptr);
    } else {
      collectives::test::expect_fine(
          collectives::test::run_ranks(std::string(static_cast<std::size_t>(layout.ranks()), 'A'),
                                       [&](Communicator& world) { body(&world); }));
    }
    for (const std::string& text : found_by_rank) EXPECT_EQ(text, found_by_rank[0]);
    return outcome;
  }

  void damage(const std::string& path, std::size_t from_end) {
    std::string bytes = folder_.read(path);
    ASSERT_GT(bytes.size(), from_end);
    bytes[bytes.size() - 1 - from_end] = static_cast<char>(bytes[bytes.size() - 1 - from_end] ^ 1);
    folder_.write(path, bytes);
  }

  TemporaryFolder folder_;
  /// How often the ranks opened each shard to survey, and to restore.
  std::map<std::string, int> surveys_opens_, opens_;
};

TEST_F(Restore, AnyLayoutReadsWhatAnyOtherWrote) {
  const Layout layouts[] = {{1, 1}, {2, 2}, {4, 1}, {1, 3}};
  std::int64_t step = 1;
  for (const Layout& writers : layouts)
    for (const Layout& readers : layouts) {
      write(writers, {step, 1}, shared());
      const Outcome outcome = read(readers, shared());
      ASSERT_EQ(outcome.found.front().id.step, step);
      EXPECT_EQ(outcome.result.faults, std::vector<std::string>{});
      EXPECT_TRUE(outcome.result.read_directly);
      EXPECT_EQ(outcome.result.data_position, fmt::format(R"({{"step":{}}})", step));
      ++step;
    }
}

TEST_F(Restore, ShardsOnDisksOfTheirOwnReachEveryRank) {
  write({2, 2}, {7, 1}, local());
  for (const Layout& readers : {Layout{2, 2}, Layout{4, 1}, Layout{1, 4}}) {
    const Outcome outcome = read(readers, local());
    ASSERT_EQ(outcome.found.size(), 1U);
    EXPECT_EQ(outcome.found[0].seen_by, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(outcome.result.faults, std::vector<std::string>{});
    EXPECT_FALSE(outcome.result.read_directly) << "a rank has read what is not on its disk";
  }
}

TEST_F(Restore, RanksThatHaveAllTheyNeedOnTheirOwnDiskReadIt) {
  write({1, 1}, {7, 1}, [&](int) { return local()(0); });
  write({1, 1}, {7, 1}, [&](int) { return local()(1); });
  const Outcome outcome = read({2, 1}, local());
  EXPECT_EQ(outcome.result.faults, std::vector<std::string>{});
  EXPECT_TRUE(outcome.result.read_directly);
}

// A file system that all share would else be asked for ranks x ranks files before the first step.
TEST_F(Restore, HeadsOnASharedFolderAreReadOnceForAllRanks) {
  write({4, 1}, {7, 1}, shared());
  const Outcome outcome = read({4, 1}, shared());
  EXPECT_TRUE(outcome.result.read_directly);
  std::map<std::string, int> once, twice;
  for (int shard = 0; shard < 4; ++shard) once[shard_name({shard, 4})] = 1;
  EXPECT_EQ(surveys_opens_, once);
  // Its rank reads the head, and then the data; the last stage needs a copy of the embedding too.
  for (const auto& [name, opens] : once) twice[name] = 2;
  twice[shard_name({0, 4})] += 2;
  EXPECT_EQ(opens_, twice);
}

TEST_F(Restore, ADamagedCopyIsReplacedByAnotherRanks) {
  for (const int rank : {0, 1}) write({1, 1}, {7, 1}, [&](int) { return local()(rank); });
  const std::string path = folder_name({7, 1}) + "/shard-0-of-1.tombolo";
  folder_.write("host0/" + path, folder_.read("host0/" + path).substr(0, 100));
  const Outcome outcome = read({2, 1}, local());
  ASSERT_EQ(outcome.found.at(0).condition, CheckpointCondition::kWhole) << outcome.found[0].text();
  EXPECT_EQ(outcome.found[0].seen_by, std::vector<int>{1});
  EXPECT_EQ(outcome.result.faults, std::vector<std::string>{});
  EXPECT_FALSE(outcome.result.read_directly) << "rank 0's copy is cut short";
}

TEST_F(Restore, ManyFaultsAreCounted) {
  write({4, 2}, {7, 1}, shared());
  for (int shard = 0; shard < 8; ++shard)
    folder_.write(fmt::format("{}/{}", folder_name({7, 1}), shard_name({shard, 8})), "cut");
  const Outcome outcome = read({2, 2}, shared());
  EXPECT_EQ(outcome.found.at(0).condition, CheckpointCondition::kDamaged);
  EXPECT_EQ(outcome.found[0].faults.size(), 5U);
  EXPECT_EQ(outcome.found[0].faults.back(), "4 more of its shards are wrong");
}

TEST_F(Restore, ShardsOfTwoNumbersOfRanksAreNoCheckpoint) {
  write({2, 1}, {7, 1}, shared());
  write({1, 1}, {7, 1}, shared());
  const Outcome outcome = read({2, 1}, shared());
  EXPECT_EQ(outcome.found.at(0).condition, CheckpointCondition::kDamaged);
  EXPECT_NE(outcome.found[0].text().find("shards of 1 and of 2 ranks"), std::string::npos)
      << outcome.found[0].text();
}

TEST_F(Restore, AShardThatNobodySeesMakesItIncomplete) {
  const CheckpointId id{7, 1};
  for (int rank : {0, 1, 3}) write({2, 2}, id, local(), rank);
  const Outcome outcome = read({2, 2}, local());
  ASSERT_EQ(outcome.found.size(), 1U);
  EXPECT_EQ(outcome.found[0].condition, CheckpointCondition::kIncomplete);
  EXPECT_NE(outcome.found[0].text().find("no rank sees shard 2 of 4"), std::string::npos)
      << outcome.found[0].text();
}

TEST_F(Restore, PartialShardsAndForeignFilesCountForNothing) {
  write({1, 1}, {7, 1}, shared());
  folder_.write(folder_name({9, 1}) + "/shard-0-of-1.tombolo.partial", "half of it");
  folder_.write("notes", "of a user");
  folder_.write("step-1/notes", "of a user");
  const Outcome outcome = read({1, 1}, shared());
  ASSERT_EQ(outcome.found.size(), 2U);
  EXPECT_EQ(outcome.found[0].id.step, 7);
  EXPECT_EQ(outcome.found[1].condition, CheckpointCondition::kIncomplete);
  EXPECT_EQ(outcome.result.faults, std::vector<std::string>{});
}

TEST_F(Restore, DamagedDataIsNamedOnEveryRankWhicheverWayItTravels) {
  const CheckpointId id{7, 1};
  std::mt19937 random(test_seed());
  write({2, 2}, id, shared());
  damage(folder_name(id) + "/shard-2-of-4.tombolo", random() % 500);
  const RestoreResult direct = read({2, 2}, shared()).result;
  ASSERT_EQ(direct.faults.size(), 1U);
  for (const char* words : {"shard-2-of-4.tombolo", "checksum of chunk", "first 2"})
    EXPECT_NE(direct.faults[0].find(words), std::string::npos) << direct.faults[0];

  write({2, 2}, id, local());
  damage("host2/" + folder_name(id) + "/shard-2-of-4.tombolo", random() % 500);
  const RestoreResult sent = read({2, 2}, local()).result;
  ASSERT_FALSE(sent.faults.empty());
  for (const std::string& fault : sent.faults)
    for (const char* words : {"shard-2-of-4.tombolo", "checksum of chunk"})
      EXPECT_NE(fault.find(words), std::string::npos) << fault;
}

TEST_F(Restore, ADamagedHeadAndAnotherModelAreToldApart) {
  write({2, 1}, {7, 1}, shared());
  const std::string path = folder_name({7, 1}) + "/shard-1-of-2.tombolo";
  const std::string good = folder_.read(path);
  folder_.write(path, good.substr(0, good.size() / 2));
  Outcome outcome = read({2, 1}, shared());
  EXPECT_EQ(outcome.found.at(0).condition, CheckpointCondition::kDamaged);
  EXPECT_NE(outcome.found[0].text().find("cut short"), std::string::npos) << outcome.found[0].text();

  folder_.write(path, "X" + good.substr(1));
  outcome = read({1, 1}, shared());
  EXPECT_EQ(outcome.found.at(0).condition, CheckpointCondition::kDamaged);
  EXPECT_NE(outcome.found[0].text().find("another kind of file"), std::string::npos)
      << outcome.found[0].text();

  folder_.write(path, good);
  FileSystem disk;
  Shape other = marked_shape();
  other.context += 1;
  const auto found = survey_checkpoints(root(), other, nullptr, disk);
  EXPECT_EQ(found.at(0).condition, CheckpointCondition::kOther);
  EXPECT_NE(found[0].text().find("context 5"), std::string::npos) << found[0].text();
  EXPECT_NE(found[0].text().find("context 6"), std::string::npos) << found[0].text();
}

TEST_F(Restore, ARenamedShardIsNoticed) {
  write({2, 1}, {7, 1}, shared());
  const std::string folder = folder_name({7, 1});
  folder_.write(folder + "/shard-0-of-2.tombolo", folder_.read(folder + "/shard-1-of-2.tombolo"));
  const Outcome outcome = read({1, 1}, shared());
  EXPECT_EQ(outcome.found.at(0).condition, CheckpointCondition::kDamaged);
  EXPECT_NE(outcome.found[0].text().find("renamed?"), std::string::npos) << outcome.found[0].text();
}

TEST_F(Restore, ShardsThatDoNotCoverTheModelAreRefusedByName) {
  const CheckpointId id{7, 1};
  write({1, 2}, id, shared());
  // Rank 1 wrote rank 0's half.
  const std::string folder = root() + "/" + folder_name(id);
  FileSystem disk;
  ShardFile first(folder + "/shard-0-of-2.tombolo", disk);
  ShardHeader header = first.header();
  std::vector<float> data(header.floats());
  for (std::size_t chunk = 0; chunk < header.checksums.size(); ++chunk)
    first.read_chunk(chunk,
                     std::span(data).subspan(chunk * header.chunk_floats, floats_of_chunk(header, chunk)));
  header.shard = {1, 2};
  ASSERT_EQ(write_shard(disk, root(), header, data), "");
  const Outcome outcome = read({1, 1}, shared());
  ASSERT_EQ(outcome.found.at(0).condition, CheckpointCondition::kWhole) << "every shard is there";
  ASSERT_EQ(outcome.result.faults.size(), 1U);
  EXPECT_NE(outcome.result.faults[0].find("no shard holds the parameters of"), std::string::npos)
      << outcome.result.faults[0];
}

TEST_F(Restore, AFolderThatCannotBeReadIsNamedOnEveryRank) {
  folder_.write("file", "");
  FileSystem disk;
  EXPECT_TRUE(survey_checkpoints(root() + "/none", marked_shape(), nullptr, disk).empty());
  const auto outcomes = collectives::test::run_ranks("AA", [&](Communicator& world) {
    try {
      FileSystem own;
      survey_checkpoints(world.rank() == 1 ? root() + "/file" : root(), marked_shape(), &world, own);
    } catch (const Error&) {
      world.finalize();
      throw;
    }
  });
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_NE(outcome.text.find("rank 1: checkpoint folder"), std::string::npos) << outcome.text;
  }
}

}  // namespace
}  // namespace tombolo::trainer
