#include "tools/demo/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/temporary_folder.h"
#include "tools/cli/testing.h"

namespace tombolo::tools::demo {
namespace {

constexpr auto kTextLimit = std::chrono::seconds(60);

class DemoText : public ::testing::Test {
 protected:
  Text make(const std::string& data = "") {
    Options options;
    options.data = data;
    return make_text(options, folder_.path().string(), kTextLimit);
  }
  /// A program `bible` that is this script.
  void install_bible(const std::string& script) {
    folder_.write("bin/bible", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_.file("bin/bible"), std::filesystem::perms::owner_all);
  }
  TemporaryFolder folder_;
  TemporaryVariable path_{"PATH", folder_.file("bin")};
};

TEST_F(DemoText, IsTheFileThatWasGiven) {
  folder_.write("book.txt", std::string(20'000, 'x'));
  const Text text = make(folder_.file("book.txt"));
  EXPECT_EQ(text.path, folder_.file("book.txt"));
  EXPECT_EQ(text.source, "book.txt");
  EXPECT_EQ(text.bytes, 20'000);
}

TEST_F(DemoText, NamesTheFileThatCannotBeLearntFrom) {
  EXPECT_MENTIONS(error_of([&] { make(folder_.file("none.txt")); }),
                  "--data " + folder_.file("none.txt") + ": not a file");
  EXPECT_MENTIONS(error_of([&] { make(folder_.path().string()); }), "not a file that can be read");
  folder_.write("short.txt", std::string(16 * 1024 - 1, 'x'));
  EXPECT_MENTIONS(error_of([&] { make(folder_.file("short.txt")); }), "at least 16 KiB are needed");
}

TEST_F(DemoText, IsWhatBiblePrintsElse) {
  install_bible("i=0; while [ $i -lt 1000 ]; do echo \"In the beginning $*\"; i=$((i + 1)); done");
  const Text text = make();
  EXPECT_EQ(text.source, "the King James Bible");
  EXPECT_EQ(text.path, folder_.file("king-james.txt"));
  const std::string line = "In the beginning -f gen1:1-rev22:21\n";
  EXPECT_EQ(folder_.read("king-james.txt").substr(0, 2 * line.size()), line + line);
  EXPECT_EQ(text.bytes, static_cast<double>(1000 * line.size()));
}

TEST_F(DemoText, SaysWhatToInstallWhereThereIsNoBible) {
  EXPECT_MENTIONS(error_of([&] { make(); }, Cause::kUnsupported), "apt-get install bible-kjv");
}

TEST_F(DemoText, SaysWhyBibleFailed) {
  install_bible("echo 'no such verse' >&2; exit 3");
  EXPECT_MENTIONS(error_of([&] { make(); }, Cause::kSystem),
                  "ended with exit code 3 after 0 B: no such verse");
  install_bible("echo too little");
  EXPECT_MENTIONS(error_of([&] { make(); }, Cause::kSystem), "is bible-kjv-text installed?");
}

TEST_F(DemoText, NamesTheFolderThatCannotBeWrittenTo) {
  install_bible("i=0; while [ $i -lt 1000 ]; do echo 'In the beginning God created'; i=$((i + 1)); done");
  EXPECT_MENTIONS(error_of([] { make_text({}, "/nonexistent", kTextLimit); }, Cause::kSystem),
                  "writing /nonexistent/king-james.txt");
}

}  // namespace
}  // namespace tombolo::tools::demo
