// Writing files: whole or not at all, through links, and into what is no file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "base/json.h"
#include "base/temporary_folder.h"

namespace tombolo {
namespace {

class WrittenFile : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
  }
  /// The text of the error with which writing to `path` fails.
  static std::string refusal(const std::string& path) {
    try {
      write_text_file(path, "text");
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kSystem) << error.what();
      return error.what();
    }
    ADD_FAILURE() << path << " was written";
    return {};
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.file("a");
};

TEST_F(WrittenFile, TakesThePlaceOfAnotherAndLeavesNothingBeside) {
  write_json_file(path_, Json{{"x", {1, 2, 3}}});
  write_json_file(path_, Json{{"x", {4}}});
  EXPECT_EQ(folder_.read("a"), "{\n \"x\": [\n  4\n ]\n}\n");
  write_text_file(path_, "");
  EXPECT_EQ(folder_.read("a"), "");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(WrittenFile, IsReadableAsTheUmaskSays) {
  const mode_t before = ::umask(027);
  write_text_file(path_, "text");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST_F(WrittenFile, OfJsonReplacesBytesThatAreNoText) {
  write_json_file(path_, Json("a\xff"));
  EXPECT_EQ(JsonDocument::load(path_).root().text(), "a\xef\xbf\xbd");
}

TEST_F(WrittenFile, IsTheOneThatALinkNames) {
  folder_.write("runs/old", "old");
  for (const char* target : {"runs/old", "runs/new"}) {  // the new one is not there yet
    const std::string link = folder_.file("link");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("first", link);
    std::filesystem::remove(folder_.file("first"));
    std::filesystem::create_symlink(target, folder_.file("first"));
    write_text_file(link, target);
    EXPECT_TRUE(std::filesystem::is_symlink(link)) << target;
    EXPECT_TRUE(std::filesystem::is_symlink(folder_.file("first"))) << target;
    EXPECT_EQ(folder_.read(target), target);
  }
}

TEST_F(WrittenFile, StepsAsideOfWhatAnotherProcessLeft) {
  const std::string left = fmt::format("a.{}.0", ::getpid());
  folder_.write(left, "left by a process of this number that was killed");
  write_text_file(path_, "text");
  EXPECT_EQ(folder_.read("a"), "text");
  EXPECT_EQ(names(), (std::vector<std::string>{"a", left}));
}

TEST_F(WrittenFile, GoesIntoAPipeAndNotOverIt) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const Descriptor reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader);
  write_text_file(path_, "text");
  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader.get(), got.data(), got.size()), 4);
  EXPECT_STREQ(got.data(), "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
  write_text_file("/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(WrittenFile, FollowsWhatStandardOutputHasPrinted) {
  std::fflush(stdout);
  const Descriptor before(::dup(STDOUT_FILENO));
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_GE(::dup2(file.get(), STDOUT_FILENO), 0);
  EXPECT_EQ(::write(STDOUT_FILENO, "printed ", 8), 8);
  write_text_file("/dev/stdout", "text");
  ASSERT_GE(::dup2(before.get(), STDOUT_FILENO), 0);
  EXPECT_EQ(folder_.read("a"), "printed text");
}

TEST_F(WrittenFile, NamesTheFileThatCannotBeWritten) {
  EXPECT_EQ(refusal(folder_.path().string()), folder_.path().string() + ": cannot write: it is a folder");
  EXPECT_TRUE(refusal(folder_.file("no/where"))
                  .starts_with(folder_.file("no/where") +
                               ": cannot create a temporary file beside it: No such file"));
  EXPECT_TRUE(refusal("/dev/full").starts_with("/dev/full: cannot write: No space left on device"));
  std::filesystem::create_symlink("loop", folder_.file("loop"));
  EXPECT_NE(refusal(folder_.file("loop")).find("loop"), std::string::npos);
  EXPECT_EQ(names(), std::vector<std::string>{"loop"}) << "a temporary file was left behind";
}

}  // namespace
}  // namespace tombolo
