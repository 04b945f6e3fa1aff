#include "tools/demo/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "tools/cli/testing.h"
#include "tools/demo/testing_report.h"
#include "tools/demo/testing_session.h"

namespace tombolo::tools::demo {
namespace {

namespace fs = std::filesystem;

class DemoResults : public DemoSession {
 protected:
  DemoResults() {
    report_.profile = std::make_shared<const planner::Profile>();
    report_.files = Results::names();
    for (const char* name :
         {"plan-one-communicator.json", "plan-per-peer.json", "plan-holmes.json", "train.log", "model.bin"})
      std::ofstream(session_.file(name)) << "the " << name;
  }
  bool has(const std::string& name) const { return fs::exists(out("") + name); }
  std::string out(const std::string& name) const { return folder_.file("results/" + name); }

  TemporaryFolder folder_;
  Report report_ = made_up_report();
};

TEST_F(DemoResults, AreAllThereOnceTheyAreWritten) {
  {
    Results results(out(""));
    EXPECT_TRUE(fs::is_empty(out("")));
    results.write(report_, session_);
    EXPECT_MENTIONS(results.listing(), "/report.html");
    EXPECT_EQ(results.listing().find("plan-per-peer.json"), std::string::npos) << "not for people";
  }
  for (const std::string& name : Results::names()) EXPECT_TRUE(has(name)) << name;
  EXPECT_EQ(folder_.read("results/model.bin"), "the model.bin");
  EXPECT_EQ(Json::parse(folder_.read("results/report.json")).at("files"), Json(Results::names()));
}

TEST_F(DemoResults, OfAnEarlierDemoAreRemovedFirst) {
  { Results(out("")).write(report_, session_); }
  folder_.write("results/mine.txt", "mine");
  { const Results results(out("")); }
  for (const std::string& name : Results::names()) EXPECT_FALSE(has(name)) << name;
  EXPECT_TRUE(has("mine.txt"));
}

TEST_F(DemoResults, AFileThatNoReportListsIsNotTouched) {
  folder_.write("results/model.bin", "mine");
  EXPECT_MENTIONS(error_of([&] { Results{out("")}; }),
                  "model.bin is there, and no report.json of a demo lists it");
  folder_.write("results/report.json", R"({"files": ["report.json", "report.html"]})");
  EXPECT_MENTIONS(error_of([&] { Results{out("")}; }), "model.bin is there");
  for (const char* no_report : {"{}", "nonsense", R"({"files": 3})", R"({"files": [7]})"}) {
    folder_.write("results/report.json", no_report);
    EXPECT_NE(error_of([&] { Results{out("")}; }), "no error") << no_report;
  }
  EXPECT_EQ(folder_.read("results/model.bin"), "mine");
}

TEST_F(DemoResults, LeaveNothingWhereWritingFails) {
  fs::remove(session_.file("model.bin"));
  {
    Results results(out(""));
    EXPECT_MENTIONS(error_of([&] { results.write(report_, session_); }, Cause::kSystem), "model.bin");
    EXPECT_TRUE(has("cluster.json")) << "it was begun";
  }
  EXPECT_FALSE(fs::exists(out(""))) << "the folder was made for it";
  fs::create_directories(out(""));
  {
    Results results(out(""));
    EXPECT_NE(error_of([&] { results.write(report_, session_); }, Cause::kSystem), "no error");
  }
  EXPECT_TRUE(fs::is_empty(out(""))) << "this one was there before";
}

TEST_F(DemoResults, AreNotBegunWithoutBeingWritten) {
  { const Results results(out("deeper")); }
  EXPECT_FALSE(fs::exists(out("deeper")));
}

TEST_F(DemoResults, NeedAFolderThatCanBeWrittenTo) {
  folder_.write("file", "");
  EXPECT_MENTIONS(error_of([&] { Results{folder_.file("file")}; }), "not a folder that can be written to");
  EXPECT_MENTIONS(error_of([&] { Results{folder_.file("file/below")}; }),
                  "--out " + folder_.file("file/below"));
}

}  // namespace
}  // namespace tombolo::tools::demo
