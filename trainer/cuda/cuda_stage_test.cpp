// The stage on the pretended device against the CPU's, in whatever order the device does its work.
#include "trainer/cuda/cuda_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "base/randomized_test.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/cuda/testing/pretended_device.h"
#include "trainer/model/initial_values.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr int kBatchRows = 2, kMicroBatches = 4, kInFlight = 2;

Shape tiny_shape() {
  Shape shape;
  shape.context = 9;
  shape.vocabulary = 29;
  shape.padded_vocabulary = 32;
  shape.layers = 3;
  shape.heads = 3;
  shape.width = 12;
  return shape;
}

constexpr std::size_t kTokens = kBatchRows * 9;

std::vector<std::int32_t> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(random() % static_cast<unsigned>(tiny_shape().vocabulary));
  return tokens;
}

StageOptions stage_options(int first_layer, int layers) {
  StageOptions options;
  options.shape = tiny_shape();
  options.first_layer = first_layer;
  options.layers = layers;
  options.rows = kBatchRows;
  options.in_flight = kInFlight;
  options.loss_scale = 1.0 / (kMicroBatches * static_cast<double>(kTokens));
  return options;
}

/// Spreads the initial values, so that no gradient is negligible.
void initialize_widely(StageCompute& stage) {
  std::vector<float> arena(stage.layout().size());
  initialize(tiny_shape(), 5, stage.layout(), arena);
  for (const Slice& slice : stage.layout().slices())
    for (std::size_t at = 0; at < slice.elements; ++at) {
      float& value = arena[slice.offset + at];
      value =
          (tensor_info(slice.tensor).matrix ? 4 * value : value) + 0.02F * static_cast<float>(at % 7) - 0.06F;
    }
  stage.write_state(StageState::kParameters, 0, arena);
}

/// What training leaves: to be compared.
struct Trained {
  std::vector<double> losses, norms;                      ///< by step
  std::vector<std::vector<float>> gradients, parameters;  ///< by stage, after the last step
  bool operator==(const Trained&) const = default;
};

/// A pipeline of stages in one thread, several micro-batches in flight.
class Training {
 public:
  explicit Training(std::vector<std::unique_ptr<StageCompute>> stages) : stages_(std::move(stages)) {
    for (const auto& stage : stages_) initialize_widely(*stage);
    for (unsigned micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      tokens_.push_back(random_tokens(kTokens, 10 + micro_batch));
      targets_.push_back(random_tokens(kTokens, 20 + micro_batch));
    }
  }

  Trained run(int steps) {
    Trained result;
    AdamW optimizer;
    optimizer.learning_rate = 1e-2;
    optimizer.weight_decay = 0.1;
    optimizer.clip = 1;
    // A gradient that is 0 but for rounding (that of the keys' biases) would else move its parameter by a
    // whole learning rate, up or down as the rounding falls.
    optimizer.epsilon = 1e-3;
    for (int step = 0; step < steps; ++step) {
      for (const auto& stage : stages_) stage->clear_gradients();
      passes();
      exchange_gradients(result);
      result.losses.push_back(stages_.back()->take_loss_sum() * stage_options(0, 1).loss_scale);
      double squares = 0;
      for (const auto& stage : stages_) squares += stage->gradient_square_sum();
      result.norms.push_back(std::sqrt(squares));
      for (const auto& stage : stages_) stage->update(adamw_step(optimizer, step, result.norms.back()));
    }
    for (const auto& stage : stages_) {
      result.parameters.emplace_back(stage->layout().size());
      stage->read_state(StageState::kParameters, 0, result.parameters.back());
    }
    return result;
  }

  StageCompute& stage(std::size_t index) { return *stages_[index]; }

 private:
  /// Forward one micro-batch ahead of backward on all stages but the last.
  void passes() {
    forward(0, 0);
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      if (micro_batch + 1 < kMicroBatches) forward(0, micro_batch + 1);
      for (std::size_t stage = 1; stage < stages_.size(); ++stage) forward(stage, micro_batch);
      for (std::size_t stage = stages_.size(); stage-- > 0;) backward(stage, micro_batch);
    }
  }

  void forward(std::size_t stage, int micro_batch) {
    if (stage > 0)
      std::ranges::copy(stages_[stage - 1]->output(micro_batch), stages_[stage]->input(micro_batch).begin());
    const auto at = static_cast<std::size_t>(micro_batch);
    stages_[stage]->forward(micro_batch, tokens_[at], targets_[at], {});
  }

  void backward(std::size_t stage, int micro_batch) {
    if (stage + 1 < stages_.size())
      std::ranges::copy(stages_[stage + 1]->boundary_gradient(micro_batch),
                        stages_[stage]->boundary_gradient(micro_batch).begin());
    stages_[stage]->backward(micro_batch, tokens_[static_cast<std::size_t>(micro_batch)], {}, {});
  }

  /// As the reducer does: all to the host; both copies of the embedding become their sum; and back.
  void exchange_gradients(Trained& result) {
    result.gradients.clear();
    std::vector<std::span<float>> values;
    for (const auto& stage : stages_) values.push_back(stage->gradients_to_host({0, stage->layout().size()}));
    if (stages_.size() > 1) {
      const Slice& one = stages_.front()->layout().find(Tensor::kTokenEmbedding);
      const Slice& other = stages_.back()->layout().find(Tensor::kTokenEmbedding);
      for (std::size_t at = 0; at < one.elements; ++at)
        values.front()[one.offset + at] = values.back()[other.offset + at] += values.front()[one.offset + at];
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      result.gradients.emplace_back(values[stage].begin(), values[stage].end());
      stages_[stage]->gradients_from_host({0, stages_[stage]->layout().size()});
    }
  }

  std::vector<std::unique_ptr<StageCompute>> stages_;
  std::vector<std::vector<std::int32_t>> tokens_, targets_;
};

/// How a run on pretended devices differs from another.
struct Variant {
  int stages = 1;
  PretendedOptions device = {};
  CudaStageOptions cuda = {};
  compute::Precision precision = compute::Precision::kFloat32, moments = compute::Precision::kFloat32;
  planner::Recompute recompute = planner::Recompute::kNone;
};

/// The stages of a whole model, each made by `make`.
Training training_of(int stages, const std::function<std::unique_ptr<StageCompute>(StageOptions)>& make) {
  std::vector<std::unique_ptr<StageCompute>> all;
  if (stages == 1) {
    all.push_back(make(stage_options(0, 3)));
  } else if (stages == 2) {
    all.push_back(make(stage_options(0, 1)));
    all.push_back(make(stage_options(1, 2)));
  } else {
    for (int stage = 0; stage < 3; ++stage) all.push_back(make(stage_options(stage, 1)));
  }
  return Training(std::move(all));
}

Training training_of(const Variant& variant) {
  return training_of(variant.stages, [&](StageOptions options) {
    options.precision = variant.precision;
    options.moments = variant.moments;
    options.recompute = variant.recompute;
    return make_cuda_stage(std::make_shared<PretendedDevice>(variant.device), options, variant.cuda);
  });
}

Trained trained(const Variant& variant, int steps = 10) {
  return training_of(variant).run(steps);
}

Trained trained_on_cpu(int stages, int steps = 10) {
  return training_of(stages, [](const StageOptions& options) { return make_cpu_stage(options); }).run(steps);
}

/// Cosine of the angle between the two, and how much longer the first is.
std::pair<double, double> direction_and_length(const std::vector<float>& one,
                                               const std::vector<float>& other) {
  double dot = 0, squares = 0, other_squares = 0;
  for (std::size_t at = 0; at < one.size(); ++at) {
    const auto a = static_cast<double>(one[at]), b = static_cast<double>(other[at]);
    dot += a * b;
    squares += a * a;
    other_squares += b * b;
  }
  return {dot / std::sqrt(squares * other_squares), std::sqrt(squares / other_squares)};
}

// fp32 against fp32 with other orders of sums: a relative 1e-5 of the loss and the norm in ten steps, 1e-5
// of a gradient's largest element, 1e-4 of a parameter (which moves by up to 1e-2 in each step).
void expect_equal_in_fp32(const Trained& found, const Trained& expected) {
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-5 * expected.losses[step]) << "step " << step;
    EXPECT_NEAR(found.norms[step], expected.norms[step], 1e-4 * expected.norms[step]) << "step " << step;
  }
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t stage = 0; stage < expected.gradients.size(); ++stage) {
    const auto& gradients = expected.gradients[stage];
    const float largest =
        std::abs(*std::ranges::max_element(gradients, {}, [](float value) { return std::abs(value); }));
    for (std::size_t at = 0; at < gradients.size(); ++at) {
      ASSERT_NEAR(found.gradients[stage][at], gradients[at], 1e-4 * largest)
          << "stage " << stage << " " << at;
      ASSERT_NEAR(found.parameters[stage][at], expected.parameters[stage][at], 1e-4)
          << "stage " << stage << " " << at;
    }
  }
}

PretendedOptions streams(Eagerness compute, Eagerness to_host, Eagerness from_host) {
  PretendedOptions options;
  options.streams = {compute, to_host, from_host};
  return options;
}

/// Orders that leave least to chance: everything at once, nothing before the host waits, and each mixture.
std::vector<PretendedOptions> extreme_orders() {
  std::vector<PretendedOptions> all;
  for (const Eagerness compute : {Eagerness::kEarly, Eagerness::kLate})
    for (const Eagerness to_host : {Eagerness::kEarly, Eagerness::kLate})
      for (const Eagerness from_host : {Eagerness::kEarly, Eagerness::kLate})
        all.push_back(streams(compute, to_host, from_host));
  return all;
}

TEST(CudaStage, TenStepsInFp32AreTheCpusWhateverTheDevicesOrder) {
  for (const int stages : {1, 2, 3}) {
    SCOPED_TRACE(fmt::format("{} stages", stages));
    const Trained expected = trained_on_cpu(stages);
    EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.1) << "too little was learnt to prove much";
    Variant variant;
    variant.stages = stages;
    const Trained first = trained(variant);
    expect_equal_in_fp32(first, expected);
    for (const PretendedOptions& order : extreme_orders()) {
      variant.device = order;
      EXPECT_EQ(trained(variant), first) << "the order must not change a bit";
    }
    for (int round = 0; round < test_rounds(6); ++round) {
      variant.device = PretendedOptions{.seed = test_seed() + static_cast<unsigned>(round)};
      EXPECT_EQ(trained(variant), first);
    }
  }
}

TEST(CudaStage, GraphsRecomputationAndChunksChangeNoBit) {
  for (const int stages : {1, 2}) {
    for (const auto precision : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
      SCOPED_TRACE(fmt::format("{} stages, {}", stages, compute::precision_name(precision)));
      Variant variant;
      variant.stages = stages;
      variant.precision = precision;
      const Trained expected = trained(variant, 4);
      variant.cuda.graphs = false;
      EXPECT_EQ(trained(variant, 4), expected) << "without graphs";
      for (const bool graphs : {false, true}) {
        variant.cuda.graphs = graphs;
        for (const auto recompute : {planner::Recompute::kSelective, planner::Recompute::kFull}) {
          variant.recompute = recompute;
          EXPECT_EQ(trained(variant, 4), expected) << planner::recompute_name(recompute);
        }
      }
    }
  }
  // Chunks of tokens change the order in which the embedding's gradient is added up, and nothing else.
  Variant variant;
  variant.cuda.chunk_tokens = 5;
  expect_equal_in_fp32(trained(variant), trained_on_cpu(1));
}

TEST(CudaStage, GraphsAreCapturedOnceAndLaunchedFromThenOn) {
  const auto device = std::make_shared<PretendedDevice>();
  {
    std::vector<std::unique_ptr<StageCompute>> stages;
    stages.push_back(make_cuda_stage(device, stage_options(0, 3)));
    Training training(std::move(stages));
    training.run(1);
    // Both slots' parts ran once as they came, and once more from a graph: 3 + 3 layers, the head's three,
    // the embedding. The update ran once.
    EXPECT_EQ(device->launches(), 2U * 10U);
    training.run(1);
    EXPECT_EQ(device->launches(), 2U * 10U + 4U * 10U + 1U);
  }
}

TEST(CudaStage, Bfloat16TrainsNearlyAsFp32) {
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(fmt::format("{} stages", stages));
    Variant variant;
    variant.stages = stages;
    const Trained exact_step = trained(variant, 1), exact = trained(variant);
    variant.precision = compute::Precision::kBfloat16;
    const Trained rounded_step = trained(variant, 1), rounded = trained(variant);
    EXPECT_NE(rounded_step.losses, exact_step.losses) << "fp32 was used";
    EXPECT_NEAR(rounded_step.losses[0], exact_step.losses[0], 0.02 * exact_step.losses[0]);
    for (std::size_t stage = 0; stage < exact_step.gradients.size(); ++stage) {
      const auto [cosine, length] =
          direction_and_length(rounded_step.gradients[stage], exact_step.gradients[stage]);
      EXPECT_GT(cosine, 0.995) << "stage " << stage;
      EXPECT_NEAR(length, 1, 0.03) << "stage " << stage;
    }
    for (std::size_t step = 0; step < exact.losses.size(); ++step)
      EXPECT_NEAR(rounded.losses[step], exact.losses[step], 0.03 * exact.losses[step]) << "step " << step;
    variant.moments = compute::Precision::kBfloat16;
    const Trained small_moments = trained(variant);
    EXPECT_NE(small_moments, rounded) << "the moments were fp32";
    for (std::size_t step = 0; step < exact.losses.size(); ++step)
      EXPECT_NEAR(small_moments.losses[step], exact.losses[step], 0.03 * exact.losses[step]) << step;
    EXPECT_EQ(trained(variant), small_moments) << "rounding at random repeats itself";
  }
}

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

TEST(CudaStage, WithoutItsEventsThePretendedDeviceObjects) {
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

TEST(CudaStage, SumsComeAfterTheGradientsOrThePretendedDeviceObjects) {
  const auto run = [](Stream waits, Stream recorded) {
    step_with_sums(
        *make_cuda_stage(std::make_shared<DeviceWithoutWaits>(waits, recorded), stage_options(0, 3)));
  };
  run(Stream::kReduce, Stream::kReduce);  // nothing is left out
  test::expect_refusal([&] { run(Stream::kReduce, Stream::kCompute); },
                       {"sum over devices", "\"reduce\"", "no event orders the two"}, Cause::kInternal);
}

TEST(CudaStage, SumsOfABlockAreMadeWhileBackwardGoesOn) {
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

TEST(CudaStage, TheLastStagesForwardReturnsBeforeTheDeviceHasBegun) {
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

TEST(CudaStage, GradientsOfABlockReachTheHostWhileBackwardGoesOn) {
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

TEST(CudaStage, ScoresAreTheCpus) {
  for (const auto precision : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
    StageOptions options = stage_options(0, 3);
    options.training = false;
    const auto expected = make_cpu_stage(options);
    options.precision = precision;
    const auto found = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
    initialize_widely(*expected);
    initialize_widely(*found);
    const auto tokens = random_tokens(kTokens, 3);
    const double bound = precision == compute::Precision::kFloat32 ? 1e-4 : 0.1;
    for (const int micro_batch : {0, 1, 2}) {
      expected->forward(micro_batch, tokens, {}, {});
      found->forward(micro_batch, tokens, {}, {});
      for (const auto& [row, position] : {std::pair{0, 0}, std::pair{1, 4}, std::pair{1, 8}}) {
        const auto want = expected->scores(micro_batch, row, position);
        const auto have = found->scores(micro_batch, row, position);
        ASSERT_EQ(have.size(), want.size());
        for (std::size_t at = 0; at < want.size(); ++at)
          EXPECT_NEAR(have[at], want[at], bound * std::max(1.0, std::abs(static_cast<double>(want[at]))));
      }
    }
    EXPECT_EQ(found->take_loss_sum(), 0);
  }
}

TEST(CudaStage, AStageThatDoesNotTrainFindsTheLoss) {
  StageOptions options = stage_options(0, 3);
  options.training = false;
  const auto expected = make_cpu_stage(options);
  const auto found = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
  initialize_widely(*expected);
  initialize_widely(*found);
  const auto tokens = random_tokens(kTokens, 3), targets = random_tokens(kTokens, 4);
  for (int round = 0; round < 3; ++round) {
    expected->forward(round, tokens, targets, {});
    found->forward(round, tokens, targets, {});
  }
  EXPECT_NEAR(found->take_loss_sum(), expected->take_loss_sum(), 1e-3);
  EXPECT_EQ(found->take_loss_sum(), 0) << "it was taken";
  test::expect_refusal([&] { found->update({}); }, {"does not train"}, Cause::kInternal);
  std::vector<float> moments(4);
  test::expect_refusal([&] { found->read_state(StageState::kFirstMoment, 0, moments); }, {"no moments"},
                       Cause::kInternal);
}

TEST(CudaStage, StateIsWrittenAndReadInPiecesThatBeginAnywhere) {
  for (const auto moments : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
    StageOptions options = stage_options(0, 3);
    options.precision = options.moments = moments;
    const auto stage = make_cuda_stage(std::make_shared<PretendedDevice>(), options);
    const std::size_t size = stage->layout().size();
    std::mt19937 random(test_seed());
    for (const StageState state : kStageStates) {
      std::vector<float> expected(size);
      // Few bits, so that bf16 holds them.
      for (float& value : expected) value = static_cast<float>(random() % 128);
      stage->write_state(state, 0, expected);
      for (int round = 0; round < 20; ++round) {
        const std::size_t begin = random() % size, count = random() % (size - begin + 1);
        std::vector<float> piece(count);
        for (float& value : piece) value = static_cast<float>(random() % 128);
        stage->write_state(state, begin, piece);
        std::ranges::copy(piece, expected.begin() + static_cast<std::ptrdiff_t>(begin));
      }
      std::vector<float> found(size);
      stage->read_state(state, 0, found);
      EXPECT_EQ(found, expected);
      std::vector<float> piece(7);
      stage->read_state(state, 21, piece);
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin() + 21));
    }
    std::vector<float> beyond(2);
    test::expect_refusal([&] { stage->read_state(StageState::kParameters, size - 1, beyond); },
                         {fmt::format("2 floats from {}", size - 1).c_str()}, Cause::kInternal);
  }
}

TEST(CudaStage, TrainingGoesOnFromStateAsIfItHadNotStopped) {
  Variant variant;
  variant.precision = variant.moments = compute::Precision::kBfloat16;
  Training whole = training_of(variant);
  whole.run(1);
  Training second = training_of(variant);
  for (const StageState state : kStageStates) {
    std::vector<float> values(whole.stage(0).layout().size());
    whole.stage(0).read_state(state, 0, values);
    second.stage(0).write_state(state, 0, values);
  }
  EXPECT_EQ(second.run(3), whole.run(3));
}

TEST(CudaStage, WaitingForEachBlockCallsProgressOncePerBlock) {
  StageOptions options = stage_options(0, 3);
  options.wait_per_layer = true;
  const auto device =
      std::make_shared<PretendedDevice>(streams(Eagerness::kLate, Eagerness::kLate, Eagerness::kLate));
  const auto stage = make_cuda_stage(device, options);
  initialize_widely(*stage);
  const auto tokens = random_tokens(kTokens, 1);
  std::vector<std::size_t> pending;
  const auto note = [&] { pending.push_back(device->pending()); };
  stage->forward(0, tokens, tokens, note);
  note();
  stage->backward(0, tokens, note, {});
  note();
  EXPECT_EQ(pending, std::vector<std::size_t>(8, 0)) << "the device is done each time";
}

TEST(CudaStage, WhatDoesNotFitIsRefusedByName) {
  const auto make = [](const StageOptions& options) {
    return make_cuda_stage(std::make_shared<PretendedDevice>(), options);
  };
  StageOptions options = stage_options(1, 3);
  test::expect_refusal([&] { make(options); }, {"layers 1+3 of 3"});
  options = stage_options(0, 3);
  const auto stage = make(options);
  initialize_widely(*stage);
  const auto few = random_tokens(kTokens - 1, 1);
  auto outside = random_tokens(kTokens, 1);
  test::expect_refusal([&] { stage->forward(0, few, few, {}); }, {"17 token given", "has 18"},
                       Cause::kInternal);
  outside[3] = 29;
  test::expect_refusal([&] { stage->forward(0, outside, {}, {}); }, {"token 29 at place 3"});
  options.exchanges_gradients = false;
  const auto alone = make(options);
  test::expect_refusal(
      [&] {
        alone->gradients_to_host({0, 16});
      },
      {"made to exchange none"}, Cause::kInternal);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
