#include "trainer/checkpoint/write_shard.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "trainer/testing/faulty_files.h"
#include "trainer/testing/marked_stage.h"

namespace tombolo::trainer {
namespace {

using test::HookedFiles;

class WriteShard : public testing::Test {
 protected:
  WriteShard() {
    header_.id = {100, 7};
    header_.shard = {1, 2};
    header_.shape = test::marked_shape();
    header_.pieces = shard_pieces_of_all();
    data_.assign(header_.floats(), 0.5F);
  }

  std::vector<ShardPiece> shard_pieces_of_all() const {
    return {{StageState::kParameters, 0, parameter_count(header_.shape), 0}};
  }
  std::string root() const { return folder_.path().string(); }
  std::string path() const { return root() + "/" + folder_name(header_.id) + "/shard-1-of-2.tombolo"; }

  TemporaryFolder folder_;
  FileSystem disk_;
  ShardHeader header_;
  std::vector<float> data_;
};

TEST_F(WriteShard, SyncsTheFileBeforeItsNameAndTheFoldersAfterwards) {
  std::string calls;
  HookedFiles files([&](std::string_view call, const std::string&) {
    if (!calls.ends_with("write ") || call != "write") calls += std::string(call) + " ";
    return 0;
  });
  EXPECT_EQ(write_shard(files, root(), header_, data_), "");
  EXPECT_EQ(calls, "make_folder create write sync close rename sync_folder sync_folder ");
  ShardFile file(path(), disk_);
  EXPECT_EQ(file.header().pieces, header_.pieces);
}

TEST_F(WriteShard, NamesWhatFailedWhereAndWhyAndLeavesNothing) {
  struct Case {
    const char *call, *words;
    int error;
  };
  for (const Case& one :
       {Case{"make_folder", "making the folder", EROFS}, Case{"create", "creating", EACCES},
        Case{"write", "writing", ENOSPC}, Case{"sync", "syncing", EIO}, Case{"close", "closing", EDQUOT},
        Case{"rename", "renaming", EIO}, Case{"sync_folder", "syncing the folder", EIO}}) {
    HookedFiles files(
        [&](std::string_view call, const std::string&) { return call == one.call ? one.error : 0; });
    const std::string failure = write_shard(files, root(), header_, data_);
    for (const std::string& words :
         {std::string(one.words), folder_name(header_.id), std::string(std::strerror(one.error))})
      EXPECT_NE(failure.find(words), std::string::npos)
          << one.call << ": \"" << failure << "\" lacks " << words;
    EXPECT_TRUE(std::filesystem::is_empty(root())) << one.call << " leaves something";
  }
}

TEST_F(WriteShard, AWriteThatTakesNothingIsAFailure) {
  class Stuck : public FileSystem {
    int write(int, std::span<const std::byte>, std::size_t& wrote) override {
      wrote = 0;
      return 0;
    }
  } files;
  EXPECT_NE(write_shard(files, root(), header_, data_).find("writing"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(root()));
}

TEST_F(WriteShard, ShortWritesAreContinued) {
  class Short : public FileSystem {
    int write(int descriptor, std::span<const std::byte> bytes, std::size_t& wrote) override {
      return FileSystem::write(descriptor, bytes.first(std::min<std::size_t>(bytes.size(), 97)), wrote);
    }
  } files;
  EXPECT_EQ(write_shard(files, root(), header_, data_), "");
  ShardFile file(path(), disk_);
  std::vector<float> read(data_.size());
  file.read_chunk(0, read);
  EXPECT_EQ(read, data_);
}

TEST_F(WriteShard, AnotherRanksShardStaysWhereOneFails) {
  FileSystem disk;
  header_.shard = {0, 2};
  ASSERT_EQ(write_shard(disk, root(), header_, data_), "");
  header_.shard = {1, 2};
  HookedFiles full([](std::string_view call, const std::string&) { return call == "write" ? ENOSPC : 0; });
  EXPECT_NE(write_shard(full, root(), header_, data_), "");
  EXPECT_TRUE(std::filesystem::exists(root() + "/" + folder_name(header_.id) + "/shard-0-of-2.tombolo"));
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(remove_shard(disk, root(), header_.id, {0, 2}), "");
  EXPECT_TRUE(std::filesystem::is_empty(root()));
}

TEST_F(WriteShard, RemovingACheckpointTakesShardsOnly) {
  FileSystem disk;
  ASSERT_EQ(write_shard(disk, root(), header_, data_), "");
  const std::string folder = folder_name(header_.id);
  folder_.write(folder + "/shard-0-of-2.tombolo.partial", "half");
  folder_.write(folder + "/notes", "of a user");
  EXPECT_EQ(remove_checkpoint(disk, root(), header_.id), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root() + "/" + folder), {}), 1);
  std::filesystem::remove(root() + "/" + folder + "/notes");
  EXPECT_EQ(remove_checkpoint(disk, root(), header_.id), "");
  EXPECT_TRUE(std::filesystem::is_empty(root()));
  EXPECT_EQ(remove_checkpoint(disk, root(), header_.id), "") << "what is gone already is no failure";
}

}  // namespace
}  // namespace tombolo::trainer
