#include "trainer/report/scalar_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace tombolo::trainer {
namespace {

std::string contents(const std::string& folder) {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    all.append(std::istreambuf_iterator<char>(file), {});
  }
  return all;
}

TEST(ScalarLog, WritesWhatIsKnown) {
  const TemporaryFolder folder;
  ScalarLog log(folder.file("events"), 0, {});
  StepReport report;
  log.write(report, {});
  const std::string without = contents(folder.file("events"));
  for (const char* tag : {"loss", "gradient norm", "learning rate", "tokens per second"})
    EXPECT_NE(without.find(tag), std::string::npos) << tag;
  EXPECT_EQ(without.find("MFU"), std::string::npos);
  log.write(report, {1e-3, 0.4});
  EXPECT_NE(contents(folder.file("events")).find("MFU"), std::string::npos);
  EXPECT_TRUE(log.fine());
}

TEST(ScalarLog, ARunThatGoesOnDoesWithoutAFolderThatCannotBeMade) {
  const std::string folder = "/dev/null/events";
  EXPECT_THROW(ScalarLog(folder, 0, {}), Error);
  std::string logged;
  ScalarLog log(folder, 4, Log(LogLevel::kInfo, [&](LogLevel, std::string_view text) { logged += text; }));
  log.write({}, {});
  EXPECT_FALSE(log.fine());
  EXPECT_EQ(logged,
            "TensorBoard folder /dev/null/events: creating: Not a directory (errno 20); training goes on "
            "without it");
}

TEST(ScalarLog, WithoutAFolderDoesNothing) {
  ScalarLog log("", 0, {});
  log.write({}, {});
  EXPECT_TRUE(log.fine());
}

}  // namespace
}  // namespace tombolo::trainer
