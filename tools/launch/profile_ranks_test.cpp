// Times of ranks of this machine; tools/commands/profile_test.cpp merges those of several.
#include "tools/launch/profile_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "planner/testing/testing.h"
#include "tools/cli/testing.h"
#include "trainer/cuda/testing/pretended_device.h"

namespace tombolo::tools {
namespace {

planner::Profile::Measurement timed(const std::string& device, const std::string& kind, int rows,
                                    double seconds) {
  planner::Profile::Measurement one;
  one.device = device;
  one.kind = kind;
  one.micro_batch = rows;
  one.times = {seconds, 2 * seconds, 3 * seconds, 100};
  return one;
}

TEST(MedianTimes, AreByDeviceKindAndRowsInTheOrderOfTheirFirst) {
  const auto medians =
      median_times({timed("y", "layer", 1, 4), timed("x", "layer", 1, 1), timed("x", "layer", 2, 9),
                    timed("x", "head", 1, 7), timed("y", "layer", 1, 6), timed("y", "layer", 1, 5)});
  ASSERT_EQ(medians.size(), 4U);
  EXPECT_EQ(medians[0].device, "y");
  EXPECT_EQ(medians[0].times.forward, 5) << "of 4, 5 and 6";
  EXPECT_EQ(medians[0].times.backward, 10);
  EXPECT_EQ(medians[0].times.update, 15);
  EXPECT_EQ(medians[0].times.kept_bytes, 100U);
  EXPECT_EQ(medians[1].times.forward, 1);
  EXPECT_EQ(medians[2].micro_batch, 2);
  EXPECT_EQ(medians[3].kind, "head");
  EXPECT_TRUE(median_times({}).empty());
}

ProfileRequest small_request() {
  ProfileRequest request;
  request.model = planner::testing::small_model(2);
  request.micro_batches = {1, 2};
  request.seconds = 0.01;
  return request;
}

TEST(ProfileHere, TellsHowFarItIs) {
  ProfileRequest request = small_request();
  std::vector<std::pair<int, int>> told;
  request.progress = [&](int done, int total) { told.emplace_back(done, total); };
  const DeviceTimes times = profile_here(request, 1, "mine");
  EXPECT_EQ(told, (std::vector<std::pair<int, int>>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(times.device, "mine");
  ASSERT_EQ(times.measurements.size(), 6U) << "layer, embedding and head of two micro-batches";
  for (const auto& one : times.measurements) EXPECT_EQ(one.device, "mine");
}

ProfileRequest gpu_request() {
  ProfileRequest request = small_request();
  request.model.hidden = 16;
  request.model.heads = 2;
  request.model.context = 8;
  request.device = trainer::DeviceChoice::kCuda;
  request.open_gpu = [](int) { return std::make_unique<trainer::cuda::PretendedDevice>(); };
  return request;
}

TEST(ProfileHere, OnAGpuItIsCalledAsTheGpuAndKeepsItsPrecision) {
  ProfileRequest request = gpu_request();
  request.precision = compute::Precision::kBfloat16;
  request.recompute = planner::Recompute::kFull;
  std::mutex mutex;
  std::vector<int> opened;
  request.open_gpu = [&](int number) {
    const std::scoped_lock lock(mutex);
    opened.push_back(number);
    return std::make_unique<trainer::cuda::PretendedDevice>();
  };
  const DeviceTimes times = profile_here(request, 2, std::nullopt);
  EXPECT_EQ(times.device, "pretended device");
  EXPECT_EQ(times.kind, trainer::DeviceChoice::kCuda);
  EXPECT_EQ(std::ranges::count(opened, 1), std::ranges::count(opened, 0)) << "each rank has a GPU of its own";
  std::vector<std::string> warnings;
  const planner::Profile profile = merge_times(request, {times}, warnings);
  EXPECT_EQ(profile.model->bytes_per_value, 2);
  EXPECT_EQ(profile.recompute, planner::Recompute::kFull);
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_EQ(profile.devices[0].description, "pretended device");
  const auto read = planner::Profile::parse(JsonDocument::parse(profile.to_json().dump(), "profile"));
  EXPECT_EQ(read.devices[0].description, "pretended device");
  EXPECT_EQ(read.recompute, planner::Recompute::kFull);
  // Of full recomputation a layer keeps its output alone, in bf16; pieces of a GPU's memory are multiples of
  // 256 bytes.
  EXPECT_EQ(profile.times("pretended device", "layer", 1, 2)->kept_bytes, 2 * 8 * 16 * 2U);
  const DeviceTimes on_cpu = [&] {
    DeviceTimes same = times;
    same.kind = trainer::DeviceChoice::kCpu;
    return same;
  }();
  EXPECT_MENTIONS(error_of([&] { merge_times(request, {times, on_cpu}, warnings); }), "some on CPUs");
}

TEST(ProfileHere, OneGpuIsOneRanks) {
  ProfileRequest request = gpu_request();
  request.gpu = 3;
  EXPECT_MENTIONS(error_of([&] { profile_here(request, 2, std::nullopt); }), "GPU 3 alone");
}

TEST(ProfileHere, PassesOnWhatEachRankFailsWith) {
  ProfileRequest request = small_request();
  request.model.bytes_per_value = 2;  // which the trainer does not train
  EXPECT_MENTIONS(error_of([&] { profile_here(request, 1, ""); }, Cause::kUnsupported), "bytes=4");
}

TEST(ProfileHere, RefusesMoreThreadsThanProcessors) {
  ProfileRequest request = small_request();
  request.threads = 10'000;
  EXPECT_MENTIONS(error_of([&] { profile_here(request, 1, ""); }), "1 ranks of 10000 threads");
}

TEST(MergeTimesAtTheEdge, AQuarterMoreIsStillTheSame) {
  std::vector<std::string> warnings;
  const DeviceTimes fast{"a0", "x", {timed("x", "layer", 1, 4), timed("x", "layer", 2, 8)}},
      slow{"a1", "x", {timed("x", "layer", 1, 100), timed("x", "layer", 2, 10)}};
  const auto merged = merge_times(small_request(), {fast, slow}, warnings);
  EXPECT_TRUE(warnings.empty()) << "by the layer at the largest micro-batch";
  EXPECT_EQ(merged.times("x", "layer", 1, 2)->forward, 9);
}

}  // namespace
}  // namespace tombolo::tools
