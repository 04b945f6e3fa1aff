// Times of passes on the pretended device, whose clock is virtual.
#include "trainer/cuda/stage/pass_times.h"

#include <gtest/gtest.h>

#include "base/randomized_test.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/pretended_device.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr double kOperation = 0.125;  // seconds, which sums keep exactly

std::shared_ptr<PretendedDevice> timed_device(unsigned seed) {
  return std::make_shared<PretendedDevice>(PretendedOptions{.seed = seed, .operation_seconds = kOperation});
}

StageOptions timed_stage(int layers) {
  StageOptions options;
  options.shape.context = 4;
  options.shape.vocabulary = 8;
  options.shape.padded_vocabulary = 8;
  options.shape.layers = options.layers = layers;
  options.shape.heads = 1;
  options.shape.width = 4;
  options.in_flight = 2;
  options.time_passes = true;
  return options;
}

const std::vector<std::int32_t> kSomeTokens{1, 2, 3, 4};

double seconds_of(const PassTime& time) {
  return to_seconds(time.end - time.begin);
}

/// The passes of one step of `micro_batches`.
std::vector<PassTime> step_of(StageCompute& stage, int micro_batches) {
  stage.clear_gradients();
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    stage.forward(micro_batch, kSomeTokens, kSomeTokens, {});
    stage.backward(micro_batch, kSomeTokens, {}, {});
  }
  stage.take_loss_sum();
  stage.gradient_square_sum();
  auto times = stage.take_pass_times(StageCompute::Gather::kKnown);
  stage.update(adamw_step({}, 0, 1));
  return times;
}

TEST(PassTimes, AreThoseOfTheDevicesWorkInItsOrder) {
  const auto stage = make_cuda_stage(timed_device(test_seed()), timed_stage(2));
  EXPECT_EQ(stage->pass_clock(), planner::PassClock::kDevice);
  EXPECT_TRUE(stage->take_pass_times(StageCompute::Gather::kAll).empty()) << "nothing has been done";
  double forward = 0, backward = 0;
  for (int step = 0; step < 4; ++step) {  // from the second on from graphs
    const auto times = step_of(*stage, 3);
    std::vector<Pass> order;
    for (const PassTime& time : times) order.push_back(time.pass);
    std::vector<Pass> expected{Pass::kClearGradients};
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch)
      expected.insert(expected.end(), {Pass::kForward, Pass::kBackward});
    expected.push_back(Pass::kGradientNorm);
    // The update before is known only now: nobody waited for it.
    if (step > 0) expected.insert(expected.begin(), Pass::kUpdate);
    ASSERT_EQ(order, expected) << "step " << step;
    for (std::size_t at = 0; at < times.size(); ++at) {
      // The norm has an anchor of its own, and the virtual clock goes on between the two while the host's
      // stands.
      if (at > 0 && times[at].pass != Pass::kGradientNorm) {
        EXPECT_LE(times[at - 1].end, times[at].begin + std::chrono::nanoseconds(2)) << at;
      }
      if (times[at].pass == Pass::kForward) {
        if (forward == 0) forward = seconds_of(times[at]);
        EXPECT_NEAR(seconds_of(times[at]), forward, 1e-8) << "the same work takes the same time";
      }
      if (times[at].pass == Pass::kBackward) {
        if (backward == 0) backward = seconds_of(times[at]);
        EXPECT_NEAR(seconds_of(times[at]), backward, 1e-8);
      }
      if (times[at].pass == Pass::kUpdate || times[at].pass == Pass::kGradientNorm) {
        EXPECT_NEAR(seconds_of(times[at]), kOperation, 1e-8);
      }
    }
  }
  EXPECT_GT(forward, 2 * kOperation);
  EXPECT_GT(backward, forward);
  const auto last = stage->take_pass_times(StageCompute::Gather::kAll);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].pass, Pass::kUpdate);
}

TEST(PassTimes, EachLayerTakesAsLongAsTheNext) {
  const auto forward_of = [&](int layers) {
    const auto stage = make_cuda_stage(timed_device(1), timed_stage(layers));
    return seconds_of(step_of(*stage, 1).at(1));
  };
  const double one = forward_of(1), two = forward_of(2), three = forward_of(3);
  EXPECT_NEAR(three - two, two - one, 1e-8);
  EXPECT_GT(two - one, 5 * kOperation) << "a block is more than five operations";
}

TEST(PassTimes, AreNotRecordedWhereNobodyWantsThem) {
  StageOptions options = timed_stage(1);
  options.time_passes = false;
  const auto stage = make_cuda_stage(timed_device(1), options);
  EXPECT_TRUE(step_of(*stage, 2).empty());
  EXPECT_TRUE(stage->take_pass_times(StageCompute::Gather::kAll).empty());
}

TEST(PassTimes, LieOnTheHostsAxisBeforeTheAnchor) {
  PretendedDevice device({.operation_seconds = kOperation});
  std::byte* const memory = device.allocate(256, "memory");
  const Values values{memory, Element::kFloat32};
  PassTimes times(device, true);
  device.clear(Stream::kCompute, memory, 256);
  const auto work = [&] { device.run(Stream::kCompute, Convert{values, values, 64}); };
  times.begin(Pass::kForward, 7);
  work();
  times.end();
  work();
  times.record_anchor();
  const Event reached = device.make_event();
  device.record(Stream::kCompute, reached);
  device.synchronize(reached);
  EXPECT_TRUE(times.pending());
  const TimePoint now = TimePoint() + std::chrono::seconds(100);
  times.anchor_reached(now);
  EXPECT_FALSE(times.pending());
  const auto known = times.take();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].micro_batch, 7);
  EXPECT_NEAR(to_seconds(now - known[0].end), kOperation, 1e-8);
  EXPECT_NEAR(to_seconds(now - known[0].begin), 2 * kOperation, 1e-8);
  EXPECT_TRUE(times.take().empty());
}

}  // namespace
}  // namespace tombolo::trainer::cuda
