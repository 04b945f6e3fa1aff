#include "tools/cli/json_config.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tombolo::tools {
namespace {

class JsonConfig : public testing::Test {
 protected:
  JsonConfig() {
    train_ = root_.add_subcommand("train");
    add_json_config(*train_);
    train_->add_option("--data", data_)->required();
    train_->add_option("--micro-batch", micro_batch_)->check(CLI::PositiveNumber);
    train_->add_option("--lr", rate_);
    train_->add_option("--name", names_);
    train_->add_flag("--quiet,!--loud", quiet_);
  }
  ~JsonConfig() override { std::remove(path_.c_str()); }

  void parse(const std::string& json, std::vector<std::string> rest = {}) {
    std::ofstream(path_) << json;
    std::vector<std::string> words{"train", "--config", path_};
    words.insert(words.end(), rest.begin(), rest.end());
    std::reverse(words.begin(), words.end());
    root_.parse(words);
  }
  std::string refusal(const std::string& json) {
    try {
      parse(json);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  std::string path_ = testing::TempDir() + "tombolo_config_" + std::to_string(getpid()) + ".json";
  CLI::App root_;
  CLI::App* train_ = nullptr;
  std::string data_;
  std::optional<int> micro_batch_;
  double rate_ = 0;
  std::vector<std::string> names_;
  bool quiet_ = false;
};

TEST_F(JsonConfig, SetsEveryKindOfOptionRequiredOnesToo) {
  parse(R"({"data": "a b.txt", "micro_batch": 3, "lr": 0.001, "name": ["x", "y"], "quiet": true})");
  EXPECT_EQ(data_, "a b.txt");
  EXPECT_EQ(micro_batch_, 3);
  EXPECT_EQ(rate_, 0.001);
  EXPECT_EQ(names_, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(quiet_);
}

TEST_F(JsonConfig, TheCommandLineWins) {
  parse(R"({"data": "file.txt", "lr": 1})", {"--lr", "2", "--data", "line.txt"});
  EXPECT_EQ(data_, "line.txt");
  EXPECT_EQ(rate_, 2);
}

TEST_F(JsonConfig, AFlagThatIsFalseAndAMemberThatIsNullLeaveWhatIsThere) {
  parse(R"({"data": "x", "quiet": false, "lr": null})");
  EXPECT_FALSE(quiet_);
  EXPECT_EQ(rate_, 0);
}

TEST_F(JsonConfig, AMisspeltMemberIsRefusedWithFileAndLine) {
  const std::string found = refusal("{\"data\": \"x\",\n\"microbatch\": 3}");
  EXPECT_NE(found.find(path_ + ":2: microbatch: there is no option --microbatch"), std::string::npos)
      << found;
}

TEST_F(JsonConfig, AValueThatTheOptionRefusesIsNamed) {
  std::string found = refusal("{\"data\": \"x\",\n\n\"micro-batch\": -3}");
  EXPECT_NE(found.find(path_ + ":3: micro-batch: "), std::string::npos) << found;
  EXPECT_NE(found.find("-3"), std::string::npos) << found;
}

TEST_F(JsonConfig, AnObjectAFileInAFileAndHelpAreNoOptions) {
  EXPECT_NE(refusal(R"({"data": {"path": "x"}})").find("expected a text"), std::string::npos);
  EXPECT_NE(refusal(R"({"data": "x", "config": "other.json"})").find("no option --config"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"data": "x", "help": true})").find("no option --help"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::tools
