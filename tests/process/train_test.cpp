// Runs tombolo train as a user does: in one process and in several, with bad files, and with interrupts.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "tests/process/process_watch.h"

namespace tombolo::tests {
namespace {

struct Finished {
  int exit_code = -1;
  std::string output;  ///< both streams
};

Finished shell(const std::string& command) {
  Finished result;
  std::FILE* pipe = ::popen(("exec 2>&1; " + command).c_str(), "r");
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.output.append(buffer, got);
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

class Train : public testing::Test {
 protected:
  Train() {
    std::string text;
    for (int line = 0; text.size() < 20000; ++line)
      text += "In the beginning was line " + std::to_string(line * 7919 % 1000) + ".\n";
    std::ofstream(path("text"), std::ios::binary) << text;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// For a shell: the folder's name may have a space in it.
  static std::string program() { return std::string("'") + TOMBOLO_PROGRAM + "'"; }
  /// A small model, so that the tests take little time.
  std::string train(const std::string& options) const {
    return program() + " train --data " + path("text") +
           " --layers 4 --width 32 --heads 2 --context 32 --batch 8 --lr 0.003 " + options;
  }
  std::vector<Json> lines(const std::string& name) const {
    std::ifstream file(path(name));
    std::vector<Json> result;
    for (std::string line; std::getline(file, line);) result.push_back(Json::parse(line));
    return result;
  }
  Json json(const std::string& name) const {
    std::ifstream file(path(name));
    return Json::parse(file);
  }
  std::string bytes(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_failure(const std::string& command, int code, std::initializer_list<const char*> words) const {
    const Finished finished = shell(command);
    EXPECT_EQ(finished.exit_code, code) << command << "\n" << finished.output;
    for (const char* word : words)
      EXPECT_NE(finished.output.find(word), std::string::npos) << finished.output << " lacks " << word;
  }

 private:
  Folder folder_;
};

TEST_F(Train, AloneWritesALogACheckpointATraceAndASample) {
  const Finished finished = shell(
      train("--steps 12 --log " + path("log") + " --save " + path("model") + " --timeline " + path("trace") +
            " --timeline-first 3 --timeline-steps 2 --traffic " + path("traffic") + " --sample 40"));
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_NE(finished.output.find("step 12/12"), std::string::npos);
  EXPECT_NE(finished.output.find("--- sample ---"), std::string::npos);
  const auto log = lines("log");
  ASSERT_EQ(log.size(), 12U);
  for (int step = 0; step < 12; ++step)
    for (const char* field : {"loss", "grad_norm", "tokens_per_second", "step_seconds"}) {
      EXPECT_EQ(log[static_cast<std::size_t>(step)]["step"], step);
      EXPECT_GT(log[static_cast<std::size_t>(step)][field].get<double>(), 0) << field;
    }
  EXPECT_LT(log[11]["loss"].get<double>(), log[0]["loss"].get<double>() - 0.5);
  int forwards = 0;
  const Json trace = json("trace");
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "forward") {
      ++forwards;
      EXPECT_GE(event["args"]["step"], 3);
      EXPECT_LE(event["args"]["step"], 4);
    }
  EXPECT_EQ(forwards, 2);
  EXPECT_TRUE(json("traffic")["links"].empty());
  // Going on from the checkpoint starts where training ended.
  ASSERT_EQ(shell(program() + " train --data " + path("text") + " --init " + path("model") +
                  " --steps 1 --log " + path("log2"))
                .exit_code,
            0);
  EXPECT_LT(lines("log2")[0]["loss"].get<double>(), log[0]["loss"].get<double>() - 0.5);
}

TEST_F(Train, ProcessesInAnyLayoutReportTheLossOfOne) {
  ASSERT_EQ(shell(train("--steps 30 --clip 0.5 --weight-decay 0.1 --log " + path("one"))).exit_code, 0);
  const auto expected = lines("one");
  for (const char* layout : {"2:--pipeline 2 --micro-batch 2", "4:--pipeline 2 --replicas 2 --micro-batch 1",
                             "3:--pipeline 3 --micro-batch 4", "2:--replicas 2 --micro-batch 4"}) {
    const Finished finished =
        shell(program() + " run -n " + std::string(layout, 1) + " -- " +
              train("--steps 30 --clip 0.5 --weight-decay 0.1 --log " + path("many") + " --save " +
                    path("model") + " --traffic " + path("traffic") + " " + std::string(layout + 2)));
    ASSERT_EQ(finished.exit_code, 0) << layout << "\n" << finished.output;
    const auto log = lines("many");
    ASSERT_EQ(log.size(), 30U);
    for (std::size_t step = 0; step < 30; ++step) {
      EXPECT_NEAR(log[step]["loss"].get<double>(), expected[step]["loss"].get<double>(),
                  step == 0 ? 1e-5 : 1e-4)
          << layout << " step " << step;
      EXPECT_NEAR(log[step]["grad_norm"].get<double>(), expected[step]["grad_norm"].get<double>(),
                  1e-3 * expected[step]["grad_norm"].get<double>());
    }
    std::uint64_t sent = 0;
    const Json traffic = json("traffic");  // must outlive the loop over its part
    for (const Json& link : traffic["links"]) sent += link["bytes"].get<std::uint64_t>();
    // In every step at least the gradients or the activations of each row cross once.
    EXPECT_GT(sent, 30U * 8 * 32 * 32 * 4) << layout;
  }
}

// Shuffled rows, validation and samples: what one rank does, four ranks do.
TEST_F(Train, WhatEvaluatesAndShufflesIsTheSameInAnyLayout) {
  const std::string options =
      "--steps 12 --shuffle 3 --lr-schedule cosine --warmup 2 --lr-min 0.0001 --validation " + path("text") +
      " --validate-every 5 --validation-rows 20 --sample 10 --sample-every 6 ";
  ASSERT_EQ(shell(train(options + "--log " + path("one"))).exit_code, 0);
  ASSERT_EQ(shell(train("--steps 12 --shuffle 3 --lr-schedule cosine --warmup 2 --lr-min 0.0001 --log " +
                        path("plain")))
                .exit_code,
            0);
  const Finished finished = shell(program() + " run -n 4 -- " +
                                  train(options + "--pipeline 2 --replicas 2 --micro-batch 2 --log " +
                                        path("many") + " --save " + path("model.safetensors")));
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  for (const char* words : {"validation loss", "--- sample after step 6 ---", "--- sample ---"})
    EXPECT_NE(finished.output.find(words), std::string::npos) << finished.output;
  const auto one = lines("one"), many = lines("many"), plain = lines("plain");
  ASSERT_EQ(one.size(), 12U);
  ASSERT_EQ(many.size(), 12U);
  for (std::size_t step = 0; step < 12; ++step) {
    EXPECT_EQ(one[step]["loss"], plain[step]["loss"]);  // to the bit
    EXPECT_EQ(one[step]["grad_norm"], plain[step]["grad_norm"]);
    EXPECT_NEAR(many[step]["loss"].get<double>(), one[step]["loss"].get<double>(), 1e-4);
    EXPECT_EQ(many[step]["learning_rate"], one[step]["learning_rate"]);
    const bool due = step == 4 || step == 9 || step == 11;
    ASSERT_EQ(many[step].contains("validation_loss"), due) << step;
    if (due) {
      EXPECT_NEAR(many[step]["validation_loss"].get<double>(), one[step]["validation_loss"].get<double>(),
                  1e-4);
    }
  }
  EXPECT_LT(one[11]["learning_rate"].get<double>(), 0.1 * one[2]["learning_rate"].get<double>());
  // The model that four ranks wrote for Hugging Face's programs is one to go on from.
  ASSERT_EQ(shell(program() + " export " + path("model.safetensors") + " " + path("model.bin")).exit_code, 0);
  EXPECT_EQ(shell(program() + " train --data " + path("text") + " --init " + path("model.bin") + " --steps 1")
                .exit_code,
            0);
}

TEST_F(Train, TheSameRunTwiceGivesTheSameBytes) {
  for (const char* name : {"first", "second"})
    ASSERT_EQ(
        shell(program() + " run -n 2 -- " + train("--steps 5 --pipeline 2 --save " + path(name))).exit_code,
        0);
  EXPECT_EQ(bytes("first"), bytes("second"));
  EXPECT_GT(bytes("first").size(), 4096U);
}

TEST_F(Train, BadFilesAndOptionsAreNamed) {
  expect_failure(program() + " train --data " + path("none"), 2, {"none", "No such file"});
  expect_failure(program() + " train --data " + path("text") + " --context 30000", 2, {"text", "too few"});
  std::ofstream(path("bad")) << "not a checkpoint";
  expect_failure(program() + " train --data " + path("text") + " --init " + path("bad"), 2,
                 {"bad", "16 bytes"});
  expect_failure(train("--init random:x"), 2, {"random:x"});
  expect_failure(train("--plan " + path("none")), 2, {"none"});
  std::ofstream(path("plan")) << "{ \"version\": ";
  expect_failure(train("--plan " + path("plan")), 2, {"plan"});
  expect_failure(train("--pipeline 5 --steps 1"), 2, {"5 stages cannot share 4 layers"});
  expect_failure(train("--pipeline 2 --steps 1"), 2, {"takes 2 ranks, but 1 is running"});
  expect_failure(train("--micro-batch 3"), 2, {"does not divide"});
  expect_failure(program() + " train --data " + path("text") + " --heads 3", 2, {"multiple of heads"});
  expect_failure(program() + " train --data " + path("text") + " --lr -1", 2, {"--lr -1"});
  expect_failure(train("--steps 1 --save " + path("no/model")), 2, {"no/model", "not a folder"});
  ASSERT_EQ(shell(train("--steps 0 --save " + path("model"))).exit_code, 0);
  expect_failure(program() + " train --data " + path("text") + " --layers 5 --init " + path("model"), 2,
                 {"contradicts", "model"});
}

// Whoever starts runs by the hundred tells a run that diverged from options that are refused.
TEST_F(Train, ADivergedRunHasAnExitCodeOfItsOwn) {
  const std::string diverging = program() + " train --data " + path("text") +
                                " --layers 2 --width 32 --heads 2 --context 32 --lr 1e30 --steps 50";
  expect_failure(diverging, 3, {"training diverged", "gradient norm"});
  expect_failure(program() + " run -n 2 -- " + diverging + " --pipeline 2", 3, {"training diverged"});
}

// Whatever this machine has, CUDA shows no GPU here.
TEST_F(Train, WithoutAGpuCudaIsAnErrorAndAutoTakesTheCpuAndSaysWhy) {
  const std::string hidden = "CUDA_VISIBLE_DEVICES= ";
  expect_failure(hidden + train("--steps 1 --device cuda"), 1, {"GPU 0 cannot be used"});
  expect_failure(hidden + train("--steps 1 --device cuda --gpu 3"), 1, {"GPU 3 cannot be used"});
  const Finished automatic = shell(hidden + train("--steps 1 --device auto"));
  EXPECT_EQ(automatic.exit_code, 0) << automatic.output;
  EXPECT_NE(automatic.output.find("device: CPU. GPU 0 cannot be used"), std::string::npos)
      << automatic.output;
  expect_failure(train("--steps 1 --moments bf16"), 1, {"moments in fp32 only"});
}

TEST_F(Train, RecomputationGivesTheSameBytes) {
  for (const char* recompute : {"none", "selective", "full"})
    ASSERT_EQ(shell(train(std::string("--steps 3 --micro-batch 4 --recompute ") + recompute + " --save " +
                          path(recompute)))
                  .exit_code,
              0);
  EXPECT_EQ(bytes("selective"), bytes("none"));
  EXPECT_EQ(bytes("full"), bytes("none"));
  EXPECT_GT(bytes("none").size(), 4096U);
}

// One plan for two ranks on the hosts of the Holmes setting, as tombolo plan writes it.
class TrainWithAPlan : public Train {
 protected:
  void write_plan(const std::string& more) {
    const Finished cluster =
        shell(program() + " run -n 1 --quiet --emulate holmes --emulation-mode loopback --env F=" +
              path("cluster.json") + " -- sh -c 'cp $TOMBOLO_CLUSTER $F'");
    ASSERT_EQ(cluster.exit_code, 0) << cluster.output;
    // Plans need measured links; any figures do here.
    Json file = json("cluster.json");
    for (const Json& from : file["hosts"])
      for (const Json& to : file["hosts"])
        if (from["name"] != to["name"])
          file["links"].push_back({{"from", from["name"].get<std::string>() + "/eth0"},
                                   {"to", to["name"].get<std::string>() + "/eth0"},
                                   {"bytes_per_second", 1e7},
                                   {"latency_seconds", 1e-4}});
    for (Json& host : file["hosts"]) host["devices"][0]["flops_per_second"] = 1e10;
    std::ofstream(path("cluster.json")) << file;
    const Finished planned =
        shell(program() + " plan --cluster " + path("cluster.json") +
              " --layers 4 --width 32 --heads 2 --context 32 --batch 8 --pipeline 2 --data 1 "
              "-n 2 --order a0,b0 -o " +
              path("plan") + " " + more);
    ASSERT_EQ(planned.exit_code, 0) << planned.output;
  }
  std::string ranks(const std::string& flags) const {
    return program() + " run -n 2 " + flags + " -- " + train("--steps 2 --plan " + path("plan"));
  }
  static std::string on(const std::string& order) {
    return "--emulate holmes --emulation-mode loopback --order " + order;
  }
};

TEST_F(TrainWithAPlan, RanksOnThePlannedHostsTrain) {
  write_plan("");
  const Finished finished = shell(ranks(on("a0,b0")));
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(finished.output.find("train: warning"), std::string::npos) << finished.output;
}

TEST_F(TrainWithAPlan, AMisplacedRankIsNamedWithTheRemedy) {
  write_plan("");
  expect_failure(ranks(on("b0,a0")), 2, {"plan", "rank 0 on host 'a0'", "runs on 'b0'", "--order a0,b0"});
  expect_failure(ranks(on("a0,b1")), 2, {"rank 1 on host 'b0'", "runs on 'b1'", "TOMBOLO_HOST"});
}

TEST_F(TrainWithAPlan, AnotherRoutingIsRefused) {
  write_plan("--routing shared");
  expect_failure(ranks(on("a0,b0")), 2, {"routing 'shared'", "TOMBOLO_ROUTING=shared"});
  EXPECT_EQ(shell(ranks(on("a0,b0") + " --routing shared")).exit_code, 0);
}

TEST_F(TrainWithAPlan, OneMachineThatThePlanDoesNotNameTrainsWithAWarningOfRankZero) {
  write_plan("--routing shared");
  const Finished finished = shell(ranks(""));
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  const std::size_t at = finished.output.find("[0] tombolo train: warning: plan " + path("plan"));
  EXPECT_NE(at, std::string::npos) << finished.output;
  EXPECT_EQ(finished.output.find("train: warning", at + 25), std::string::npos) << finished.output;
}

/// A run that lasts until the test ends it.
pid_t start(const std::string& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    take_interrupts();
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    ::_exit(127);
  }
  return child;
}

/// The exit status; nothing where it does not end in time.
std::optional<int> end_of(pid_t child) {
  int status = 0;
  if (eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; })) return status;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return std::nullopt;
}

// However long it takes: the others have ended by then.
TEST_F(Train, NoRankWaitsForTheOneThatSamples) {
  std::ofstream(path("rank")) << train("--steps 0 --pipeline 2 --sample 100000000") + "\necho $? > " +
                                     path("code") + "$RANK\n";
  const pid_t child = start(program() + " run -n 2 -- sh " + path("rank") + " > " + path("out") + " 2>&1");
  ASSERT_GT(child, 0);
  EXPECT_TRUE(eventually([&] { return bytes("code1") == "0\n"; })) << bytes("out");
  EXPECT_EQ(bytes("code0"), "") << bytes("out");
  ::kill(child, SIGINT);
  const auto status = end_of(child);
  ASSERT_TRUE(status) << "it samples on";
  EXPECT_EQ(WEXITSTATUS(*status), 130) << bytes("out");
}

TEST_F(Train, AnInterruptEndsASampleAndPrintsWhatThereIs) {
  const pid_t child =
      start(train("--steps 1 --sample 100000000 --save " + path("model") + " > " + path("out") + " 2>&1"));
  ASSERT_GT(child, 0);
  EXPECT_TRUE(eventually([&] { return bytes("model").size() > 1024; }));
  ::kill(child, SIGINT);
  const auto status = end_of(child);
  ASSERT_TRUE(status) << "it samples on";
  EXPECT_TRUE(WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 130);
  EXPECT_NE(bytes("out").find("--- sample ---"), std::string::npos);
  EXPECT_NE(bytes("out").find("of the sample"), std::string::npos);
}

TEST_F(Train, AnInterruptEndsTheRunAfterTheStepAndKeepsTheCheckpoint) {
  const pid_t child =
      start(train("--steps 1000000 --log " + path("log") + " --save " + path("model") + " > /dev/null 2>&1"));
  ASSERT_GT(child, 0);
  EXPECT_TRUE(eventually([&] { return std::ranges::count(bytes("log"), '\n') >= 3; }));
  ::kill(child, SIGINT);
  const auto status = end_of(child);
  ASSERT_TRUE(status) << "it trains on";
  EXPECT_TRUE(WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 130);
  EXPECT_GT(bytes("model").size(), 1024U);
}

}  // namespace
}  // namespace tombolo::tests
