// In which order the stage puts its work on the device's streams, and what the host need not wait for.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/stage_training.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

/// Forgets to let one stream wait for what was recorded on another.
class DeviceWithoutWaits final : public Device {
 public:
  DeviceWithoutWaits(Stream waits, Stream recorded) : waits_(waits), recorded_(recorded) {}
  std::string name() const override { return device_.name(); }
  std::string describe() const override { return device_.describe(); }
  double peak(Element element) const override { return device_.peak(element); }
  std::byte* allocate(std::size_t bytes, std::string_view what) override {
    return device_.allocate(bytes, what);
  }
  std::byte* allocate_host(std::size_t bytes, std::string_view what) override {
    return device_.allocate_host(bytes, what);
  }
  std::size_t attention_scratch(const Attention& shape) const override {
    return device_.attention_scratch(shape);
  }
  std::size_t workspace(const Attention& shape) const override { return device_.workspace(shape); }
  void lend_workspace(Stream stream, std::span<std::byte> memory) override {
    device_.lend_workspace(stream, memory);
  }
  void run(Stream stream, const Operation& operation) override { device_.run(stream, operation); }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    device_.copy(stream, to, from, bytes);
  }
  void clear(Stream stream, void* at, std::size_t bytes) override { device_.clear(stream, at, bytes); }
  Event make_event() override { return device_.make_event(); }
  Event make_timed_event() override { return device_.make_timed_event(); }
  double seconds_between(Event begin, Event end) override { return device_.seconds_between(begin, end); }
  void record(Stream stream, Event event) override {
    by_.resize(std::max(by_.size(), static_cast<std::size_t>(event.index) + 1));
    by_[static_cast<std::size_t>(event.index)] = stream;
    device_.record(stream, event);
  }
  void wait(Stream stream, Event event) override {
    if (stream == waits_ && by_[static_cast<std::size_t>(event.index)] == recorded_) return;
    device_.wait(stream, event);
  }
  bool done(Event event) override { return device_.done(event); }
  void synchronize(Event event) override { device_.synchronize(event); }
  void begin_graph(Stream stream) override { device_.begin_graph(stream); }
  Graph end_graph(Stream stream) override { return device_.end_graph(stream); }
  void launch(Stream stream, Graph graph) override { device_.launch(stream, graph); }
  std::string address() const override { return device_.address(); }
  std::string group_library() override { return device_.group_library(); }
  GroupId make_group_id() override { return device_.make_group_id(); }
  std::unique_ptr<DeviceGroup> join_group(const GroupId& id, const GroupMember& member) override {
    return device_.join_group(id, member);
  }

 private:
  PretendedDevice device_{PretendedOptions{.nccl = std::make_shared<PretendedNccl>()}};
  Stream waits_, recorded_;
  std::vector<Stream> by_;
};

TEST(CudaStageOrder, WithoutItsEventsThePretendedDeviceObjects) {
  const auto run = [](Stream waits, Stream recorded) {
    training_of(2, [&](const StageOptions& options) {
      return make_cuda_stage(std::make_shared<DeviceWithoutWaits>(waits, recorded), options);
    }).run(2);
  };
  for (const auto& [waits, recorded] :
       {std::pair{Stream::kCompute, Stream::kFromHost}, std::pair{Stream::kToHost, Stream::kCompute},
        std::pair{Stream::kFromHost, Stream::kCompute}})
    test::expect_refusal([&, waits = waits, recorded = recorded] { run(waits, recorded); },
                         {"no event orders the two"}, Cause::kInternal);
}

/// A step of one micro-batch whose gradients are summed as backward announces them, by a group of one rank.
void step_with_sums(StageCompute& stage) {
  initialize_widely(stage);
  const auto tokens = random_tokens(kTokens, 1), targets = random_tokens(kTokens, 2);
  const auto group = stage.join_group(stage.make_group_id(), {0, 1});
  stage.clear_gradients();
  stage.forward(0, tokens, targets, {});
  std::size_t end = stage.layout().size();
  stage.backward(0, tokens, {}, [&](std::size_t begin) { group->sum({begin, std::exchange(end, begin)}); });
  group->wait();
  EXPECT_EQ(end, 0U);
}

TEST(CudaStageOrder, SumsComeAfterTheGradientsOrThePretendedDeviceObjects) {
  const auto run = [](Stream waits, Stream recorded) {
    step_with_sums(
        *make_cuda_stage(std::make_shared<DeviceWithoutWaits>(waits, recorded), stage_options(0, 3)));
  };
  run(Stream::kReduce, Stream::kReduce);  // nothing is left out
  test::expect_refusal([&] { run(Stream::kReduce, Stream::kCompute); },
                       {"sum over devices", "\"reduce\"", "no event orders the two"}, Cause::kInternal);
}

TEST(CudaStageOrder, SumsOfABlockAreMadeWhileBackwardGoesOn) {
  PretendedOptions options;
  options.streams.fill(Eagerness::kLate);
  options.nccl = std::make_shared<PretendedNccl>();
  const auto device = std::make_shared<PretendedDevice>(options);
  const auto stage = make_cuda_stage(device, stage_options(0, 3));
  step_with_sums(*stage);
  const std::vector<Stream> history = device->history();
  const auto first_sum = std::ranges::find(history, Stream::kReduce);
  ASSERT_NE(first_sum, history.end());
  EXPECT_GT(std::count(first_sum, history.end(), Stream::kCompute), 10) << "backward of two blocks is left";
}

TEST(CudaStageOrder, TheLastStagesForwardReturnsBeforeTheDeviceHasBegun) {
  const auto device =
      std::make_shared<PretendedDevice>(streams(Eagerness::kLate, Eagerness::kLate, Eagerness::kLate));
  const auto stage = make_cuda_stage(device, stage_options(0, 3));
  initialize_widely(*stage);
  const auto tokens = random_tokens(kTokens, 1), targets = random_tokens(kTokens, 2);
  const std::size_t before = device->history().size();
  stage->forward(0, tokens, targets, {});
  stage->backward(0, tokens, {}, {});
  EXPECT_EQ(device->history().size(), before);
  EXPECT_GT(stage->take_loss_sum(), 0);
  EXPECT_GT(device->history().size(), before + 50);
}

TEST(CudaStageOrder, GradientsOfABlockReachTheHostWhileBackwardGoesOn) {
  const auto device =
      std::make_shared<PretendedDevice>(streams(Eagerness::kLate, Eagerness::kLate, Eagerness::kLate));
  const auto stage = make_cuda_stage(device, stage_options(0, 3));
  initialize_widely(*stage);
  const auto tokens = random_tokens(kTokens, 1), targets = random_tokens(kTokens, 2);
  stage->forward(0, tokens, targets, {});
  std::vector<std::size_t> announced;
  std::vector<float> early;
  std::size_t end = stage->layout().size(), left = 0;
  stage->backward(0, tokens, {}, [&](std::size_t from) {
    announced.push_back(from);
    if (announced.size() != 2) return;
    // Another thread fetches what is final; nothing that comes later is waited for.
    std::thread([&] {
      const auto values = stage->gradients_to_host({from, end});
      early.assign(values.begin(), values.end());
    }).join();
    left = device->pending();
  });
  EXPECT_EQ(announced,
            (std::vector<std::size_t>{stage->layout().layer_begin(2), stage->layout().layer_begin(1),
                                      stage->layout().layer_begin(0), 0}));
  EXPECT_EQ(left, 0U) << "all that was asked for until then";
  const auto late = stage->gradients_to_host({0, end});
  EXPECT_TRUE(
      std::equal(early.begin(), early.end(), late.begin() + static_cast<std::ptrdiff_t>(announced[1])));
  EXPECT_TRUE(std::ranges::any_of(early, [](float value) { return value != 0; }));
}

}  // namespace
}  // namespace tombolo::trainer::cuda
