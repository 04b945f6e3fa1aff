#include "trainer/report/scalar_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

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
  ScalarLog log(folder.file("events"), {});
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

TEST(ScalarLog, WithoutAFolderDoesNothing) {
  ScalarLog log("", {});
  log.write({}, {});
  EXPECT_TRUE(log.fine());
}

}  // namespace
}  // namespace tombolo::trainer
