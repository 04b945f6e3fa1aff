#include "trainer/run/run_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace tombolo::trainer {
namespace {

class Counting final : public TokenSource {
 public:
  explicit Counting(std::size_t size) : tokens(size) { std::iota(tokens.begin(), tokens.end(), 0); }
  std::uint64_t size() const noexcept override { return tokens.size(); }
  int vocabulary() const noexcept override { return 1 << 20; }
  std::string name() const override { return "numbers"; }
  std::string_view unit() const noexcept override { return "number"; }
  void read(std::uint64_t position, std::span<std::int32_t> to) override {
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(position), to.size(), to.begin());
  }
  std::vector<std::int32_t> tokens;
};

TEST(RunSettings, WhatChangesTheCurveIsNamedWithBothValues) {
  Counting data(20000);
  Job job;
  const Json before = run_settings(job, data);
  EXPECT_EQ(changed_settings(before, run_settings(job, data)), "");
  job.optimizer.learning_rate = 0.5;
  job.optimizer.clip = 1;
  job.optimizer.steps = 7;  // of no effect on a constant rate
  EXPECT_EQ(changed_settings(before, run_settings(job, data)), "clip 0.0, now 1.0; lr 0.0003, now 0.5");
  job = {};
  job.precision = compute::Precision::kBfloat16;
  EXPECT_EQ(changed_settings(before, run_settings(job, data)), R"(dtype "fp32", now "bf16")");
}

TEST(RunSettings, TheEndOfAFallingRateIsOne) {
  Counting data(100);
  Job job;
  job.optimizer.schedule = RateSchedule::kCosine;
  job.optimizer.steps = 100;
  const Json before = run_settings(job, data);
  job.optimizer.steps = 200;
  EXPECT_EQ(changed_settings(before, run_settings(job, data)), "steps 100, now 200");
  job.optimizer.schedule = RateSchedule::kConstant;
  EXPECT_EQ(changed_settings(before, run_settings(job, data)), R"(lr-schedule "cosine", now "constant")");
}

TEST(RunSettings, OtherDataHasAnotherFingerprint) {
  Job job;
  for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, std::size_t{20000}}) {
    Counting data(size);
    const Json before = run_settings(job, data);
    data.tokens.back() += 1;
    EXPECT_NE(changed_settings(before, run_settings(job, data)).find("fingerprint of the data"),
              std::string::npos)
        << size;
  }
}

TEST(RunSettings, OfACheckpointThatKnowsNoneNothingIsSaid) {
  Counting data(100);
  EXPECT_EQ(changed_settings(Json::object(), run_settings({}, data)), "");
  EXPECT_EQ(changed_settings(Json("text"), run_settings({}, data)), "");
}

}  // namespace
}  // namespace tombolo::trainer
