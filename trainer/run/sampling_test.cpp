#include "trainer/run/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "trainer/data/text_file.h"
#include "trainer/data/token_file.h"
#include "trainer/data/tokenized_text.h"
#include "trainer/data/tokenizer_files.h"
#include "trainer/run/train.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

const std::string kSmallTokenizer = TOMBOLO_SOURCE_DIR "/trainer/data/recorded/tokenizer.json";

class EvaluationOfARun : public testing::Test {
 protected:
  EvaluationOfARun() {
    std::string text;
    for (int line = 0; text.size() < 6000; ++line)
      text += "This is line " + std::to_string(line * 37 % 100) + ".\n";
    folder_.write("text", text);
    options_.data = folder_.file("text");
    options_.layers = 1;
    options_.width = 16;
    options_.heads = 2;
    options_.context = 16;
    options_.batch = 4;
    options_.steps = 7;
    options_.optimizer.learning_rate = 3e-3;
  }

  std::vector<StepReport> run(const TrainOptions& options) {
    std::vector<StepReport> reports;
    samples_.clear();
    TrainHooks hooks;
    hooks.stepped = [&](const StepReport& report) { reports.push_back(report); };
    hooks.sampled = [&](int step, const std::string& text) { samples_.emplace_back(step, text); };
    hooks.log = Log(LogLevel::kWarning, [&](LogLevel, std::string_view text) { logged_ += text; });
    hooks.stop_requested = stop_requested_;
    train(options, resolve(options), nullptr, hooks);
    return reports;
  }

  TemporaryFolder folder_;
  TrainOptions options_;
  std::vector<std::pair<int, std::string>> samples_;
  std::string logged_;  ///< warnings
  std::function<bool()> stop_requested_;
};

TEST_F(EvaluationOfARun, ComesWhenItIsDueAndChangesNoBitOfTraining) {
  const auto plain = run(options_);
  EXPECT_TRUE(samples_.empty());
  folder_.write("other", std::string(500, 'x') + folder_.read("text"));
  options_.evaluation.validation = folder_.file("other");
  options_.evaluation.validate_every = 3;
  options_.evaluation.sample_every = 2;
  options_.sample.tokens = 5;
  options_.log = folder_.file("log");
  const auto evaluated = run(options_);
  ASSERT_EQ(evaluated.size(), plain.size());
  std::ifstream log(options_.log);
  for (std::size_t step = 0; step < plain.size(); ++step) {
    EXPECT_EQ(evaluated[step].loss, plain[step].loss);
    EXPECT_EQ(evaluated[step].gradient_norm, plain[step].gradient_norm);
    EXPECT_FALSE(plain[step].validation_loss);
    const bool due = step == 2 || step == 5 || step == 6;  // and after the last
    EXPECT_EQ(evaluated[step].validation_loss.has_value(), due) << step;
    std::string line;
    std::getline(log, line);
    EXPECT_EQ(Json::parse(line).contains("validation_loss"), due);
  }
  // The first is never left out; others may be, while one is being written.
  ASSERT_FALSE(samples_.empty());
  EXPECT_EQ(samples_[0].first, 1);
  for (const auto& [step, text] : samples_) EXPECT_EQ(text.size(), 5U);
}

TEST_F(EvaluationOfARun, TextAndItsTokenFileTrainAlike) {
  options_.tokenizer = kSmallTokenizer;
  options_.shuffle = 5;
  options_.sample.tokens = 3;
  options_.evaluation.sample_every = 7;
  EXPECT_EQ(resolve(options_).shape.vocabulary, 401);
  const auto text = run(options_);
  ASSERT_EQ(samples_.size(), 1U);
  EXPECT_FALSE(samples_[0].second.empty());
  JoinedFiles files = whole_files({options_.data});
  TokenFileWriter writer(folder_.file("tokens"));
  encode_files(files, load_tokenizer(kSmallTokenizer), kEncodingWindow,
               [&](std::span<const std::int32_t> tokens) { writer.append(tokens); });
  writer.finish();
  options_.data = folder_.file("tokens");
  const auto tokens = run(options_);
  for (std::size_t step = 0; step < text.size(); ++step) EXPECT_EQ(tokens[step].loss, text[step].loss);
  options_.shuffle = 6;
  EXPECT_NE(run(options_)[0].loss, text[0].loss);
}

TEST_F(EvaluationOfARun, ASampleThatFailsIsAWarningAndTheCheckpointIsMade) {
  options_.evaluation.sample_every = options_.steps;
  options_.sample.tokens = 3;
  options_.sample.make_stage = cpu_stages();
  options_.checkpoints.folder = folder_.file("checkpoints");
  // The thread that writes asks before each token.
  stop_requested_ = [trains = std::this_thread::get_id()]() -> bool {
    if (std::this_thread::get_id() != trains) throw std::runtime_error("the pen broke");
    return false;
  };
  EXPECT_EQ(run(options_).size(), 7U);
  EXPECT_TRUE(samples_.empty());
  EXPECT_EQ(logged_, "no sample after step 7: the pen broke; training goes on");
  options_.checkpoints.resume = "auto";
  options_.steps = 8;
  EXPECT_EQ(run(options_).front().step, 7) << "the checkpoint was there to go on from";
}

// Memory that does not suffice is found out at the start.
TEST_F(EvaluationOfARun, TheModelThatWritesIsMadeOnceBeforeTraining) {
  options_.evaluation.sample_every = 2;
  options_.sample.tokens = 3;
  int made = 0;
  options_.sample.make_stage = [&](const StageOptions& stage) {
    ++made;
    return make_cpu_stage(stage);
  };
  run(options_);
  EXPECT_EQ(made, 1);
  options_.sample.make_stage = [](const StageOptions&) -> std::unique_ptr<StageCompute> {
    fail(Cause::kSystem, "no memory for a stage's memory");
  };
  options_.checkpoints.folder = folder_.file("checkpoints");
  expect_refusal([&] { run(options_); }, {"no memory for a stage's memory"}, Cause::kSystem);
  for (const auto& entry : std::filesystem::directory_iterator(options_.checkpoints.folder))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << ": a checkpoint of a run that made no step";
}

TEST_F(EvaluationOfARun, OptionsThatDoNotFitAreRefused) {
  const auto refused = [&](const std::function<void(TrainOptions&)>& spoil,
                           std::initializer_list<const char*> words) {
    TrainOptions options = options_;
    spoil(options);
    expect_refusal([&] { resolve(options); }, words);
  };
  refused([](TrainOptions& o) { o.evaluation.validate_every = 3; }, {"--validate-every 3", "--validation"});
  refused([](TrainOptions& o) { o.evaluation.validate_every = -3; }, {"--validate-every -3"});
  refused([](TrainOptions& o) { o.evaluation.validation_rows = 0; }, {"--validation-rows 0"});
  refused([](TrainOptions& o) { o.evaluation.sample_every = 4; }, {"--sample-every 4", "--sample"});
  const auto sample_refused = [&](const std::function<void(GenerateOptions&)>& spoil,
                                  std::initializer_list<const char*> words) {
    refused(
        [&](TrainOptions& o) {
          o.sample.tokens = 3;
          o.vocabulary = 256;
          spoil(o.sample);
        },
        words);
  };
  sample_refused([](GenerateOptions& o) { o.tokens = -5; }, {"--sample -5 is below 0"});
  sample_refused([](GenerateOptions& o) { o.prompt = ""; }, {"--prompt is empty"});
  sample_refused([](GenerateOptions& o) { o.temperature = -1; }, {"--temperature -1"});
  sample_refused([](GenerateOptions& o) { o.temperature = std::nan(""); }, {"--temperature nan"});
  refused(
      [](TrainOptions& o) {
        o.sample.tokens = 3;
        o.sample.prompt = "~";
        o.vocabulary = 126;
      },
      {"--prompt", "token 126", "vocabulary of 126"});
  refused(
      [](TrainOptions& o) {
        o.measured = "run.json";
        o.evaluation.validation = o.data;
      },
      {"--measured", "--validation"});
  std::string tokens(1024 + 100, '\0');
  const std::int32_t header[] = {20240520, 1, 50};
  tokens.replace(0, sizeof header, reinterpret_cast<const char*>(header), sizeof header);
  folder_.write("tokens", tokens);
  refused(
      [&](TrainOptions& o) {
        o.data = folder_.file("tokens");
        o.sample.tokens = 3;
      },
      {"--tokenizer"});
}

}  // namespace
}  // namespace tombolo::trainer
