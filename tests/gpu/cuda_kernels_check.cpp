// The trainer's CUDA back end on a real GPU: every operation against the reference on the CPU, twice and from
// a graph for the same bits; then whole training steps of a stage against the CPU's stage. Prints a JSON line
// for each case. Exit code: 0; 1 where something is wrong; 77 where no GPU can be used.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/error.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/cuda/device.h"
#include "trainer/cuda/stage/cuda_stage.h"
#include "trainer/cuda/testing/operation_cases.h"
#include "trainer/model/initial_values.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr int kNoGpu = 77;  // ctest counts this exit code as skipped
constexpr std::size_t kArenaBytes = std::size_t{1} << 30;
constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 20;  // what any of the cases takes
constexpr int kTimed = 20;

struct Options {
  unsigned seed = std::random_device{}();
  int gpu = 0;
  std::string results;
  bool small = false;  ///< few small cases, as under a tool that slows kernels down; no stages
};

/// Takes results, and counts what is wrong.
class Report {
 public:
  explicit Report(const std::string& path)
      : file_(path.empty() ? stdout : std::fopen(path.c_str(), "a")), to_file_(!path.empty()) {
    if (file_ == nullptr) fail_errno(errno, "opening " + path);
  }
  ~Report() {
    if (to_file_) std::fclose(file_);
  }
  void add(nlohmann::json line, const std::string& problem) {
    line["correct"] = problem.empty();
    if (!problem.empty()) {
      ++failures_;
      line["problem"] = problem;
      std::fprintf(stderr, "cuda_kernels_check: %s\n", problem.c_str());
    }
    std::fprintf(file_, "%s\n", line.dump().c_str());
    std::fflush(file_);
    ++cases_;
  }
  int failures() const { return failures_; }
  int cases() const { return cases_; }

 private:
  std::FILE* file_;
  bool to_file_;
  int failures_ = 0, cases_ = 0;
};

/// Runs cases on the GPU, in one stretch of its memory.
class Runner {
 public:
  explicit Runner(Device& device)
      : device_(device), arena_(device.allocate(kArenaBytes, "cases")), event_(device.make_event()) {
    device.lend_workspace(Stream::kCompute, {device.allocate(kWorkspaceBytes, "workspace"), kWorkspaceBytes});
  }

  enum class Way { kAtOnce, kByGraph };

  std::vector<std::byte> result(const testing::Case& c, Way way) {
    if (c.memory.size() > kArenaBytes) fail(Cause::kInternal, "{} takes {} bytes", c.name, c.memory.size());
    const Operation operation = c.at(arena_);
    // What a first run loads, it cannot load inside a graph.
    if (way == Way::kByGraph) device_.run(Stream::kCompute, operation);
    device_.copy(Stream::kCompute, arena_, c.memory.data(), c.memory.size());
    if (way == Way::kByGraph) {
      device_.begin_graph(Stream::kCompute);
      device_.run(Stream::kCompute, operation);
      device_.launch(Stream::kCompute, device_.end_graph(Stream::kCompute));
    } else {
      device_.run(Stream::kCompute, operation);
    }
    std::vector<std::byte> memory(c.memory.size());
    device_.copy(Stream::kCompute, memory.data(), arena_, memory.size());
    wait();
    return memory;
  }

  /// Microseconds of one run among several; the numbers that it works on change from run to run.
  double microseconds(const testing::Case& c) {
    const Operation operation = c.at(arena_);
    wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int run = 0; run < kTimed; ++run) device_.run(Stream::kCompute, operation);
    wait();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
           kTimed;
  }

 private:
  void wait() {
    device_.record(Stream::kCompute, event_);
    device_.synchronize(event_);
  }
  Device& device_;
  std::byte* arena_;
  Event event_;
};

/// What counts of a result: a library may leave anything in its scratch.
std::vector<std::byte> without_scratch(const testing::Case& c, std::vector<std::byte> memory) {
  for (const auto& [offset, bytes] : c.scratch)
    std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
  return memory;
}

void check_operation(Runner& runner, Report& report, const testing::Case& c) {
  const auto result = [&](Runner::Way way) { return without_scratch(c, runner.result(c, way)); };
  const std::vector<std::byte> found = result(Runner::Way::kAtOnce);
  std::string problem = testing::difference(c, testing::reference_of(c), found);
  if (problem.empty() && result(Runner::Way::kAtOnce) != found)
    problem = c.name + ": a second run gives other bits";
  if (problem.empty() && result(Runner::Way::kByGraph) != found)
    problem = c.name + ": a graph gives other bits";
  report.add({{"test", "operation"}, {"case", c.name}, {"us", std::round(10 * runner.microseconds(c)) / 10}},
             problem);
}

/// What some steps of training give.
struct Trained {
  std::vector<double> losses;
  std::vector<float> gradients, parameters;
  bool operator==(const Trained&) const = default;
};

StageOptions stage_options(compute::Precision precision, int head_size) {
  StageOptions options;
  options.shape.context = 200;
  options.shape.vocabulary = 250;
  options.shape.padded_vocabulary = padded_vocabulary(250);
  options.shape.layers = 2;
  options.shape.heads = 2;
  options.shape.width = 2 * head_size;
  options.layers = 2;
  options.rows = 2;
  options.loss_scale = 1.0 / (2 * 2 * 200);
  options.precision = precision;
  return options;
}

Trained trained(StageCompute& stage, const StageOptions& options, unsigned seed) {
  constexpr int kSteps = 4,
                kMicroBatches = 2;  // so many that parts of a pass run at once, kept, and from a graph
  std::vector<float> parameters(stage.layout().size());
  initialize(options.shape, seed, stage.layout(), parameters);
  stage.write_state(StageState::kParameters, 0, parameters);
  std::mt19937 random(seed);
  Trained result;
  AdamW optimizer;
  optimizer.learning_rate = 1e-3;
  optimizer.epsilon = 1e-3;  // a gradient that is 0 but for rounding must not move its parameter
  const Bucket all{0, stage.layout().size()};
  for (int step = 0; step < kSteps; ++step) {
    stage.clear_gradients();
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(options.rows * options.shape.context)),
          targets;
      for (std::int32_t& token : tokens)
        token = static_cast<std::int32_t>(random() % static_cast<unsigned>(options.shape.vocabulary));
      targets = tokens;
      std::ranges::rotate(targets, targets.begin() + 1);
      stage.forward(micro_batch, tokens, targets, {});
      stage.backward(micro_batch, tokens, {}, {});
    }
    const std::span<float> gradients = stage.gradients_to_host(all);
    result.gradients.assign(gradients.begin(), gradients.end());
    stage.gradients_from_host(all);
    result.losses.push_back(stage.take_loss_sum() * options.loss_scale);
    stage.update(adamw_step(optimizer, step, std::sqrt(stage.gradient_square_sum())));
  }
  result.parameters.resize(stage.layout().size());
  stage.read_state(StageState::kParameters, 0, result.parameters);
  return result;
}

/// The root mean square of the differences by that of the values.
double distance(const std::vector<float>& expected, const std::vector<float>& found) {
  double squares = 0, differences = 0;
  for (std::size_t at = 0; at < expected.size(); ++at) {
    const auto right = static_cast<double>(expected[at]), off = static_cast<double>(found[at]) - right;
    squares += right * right;
    differences += off * off;
  }
  return std::sqrt(differences / squares);
}

void check_stage(int gpu, Report& report, compute::Precision precision, int head_size, unsigned seed) {
  const bool exact = precision == compute::Precision::kFloat32;
  const std::string name = fmt::format("{}, heads of {}", exact ? "fp32" : "bf16", head_size);
  const StageOptions options = stage_options(precision, head_size);
  StageOptions exactly = options;
  exactly.precision = compute::Precision::kFloat32;
  const auto on_cpu = make_cpu_stage(exactly);
  const Trained expected = trained(*on_cpu, exactly, seed);
  const auto on_gpu = [&](bool graphs) {
    CudaStageOptions cuda;
    cuda.graphs = graphs;
    return trained(*make_cuda_stage(open_cuda_device(gpu), options, cuda), options, seed);
  };
  const Trained found = on_gpu(true);
  double loss_off = 0;
  for (std::size_t step = 0; step < expected.losses.size(); ++step)
    loss_off = std::max(loss_off, std::abs(found.losses[step] / expected.losses[step] - 1));
  const double gradients_off = distance(expected.gradients, found.gradients);
  const double parameters_off = distance(expected.parameters, found.parameters);
  // bf16 has 8 bits: each of the few dozen roundings on the way adds up to 2^-9 of a value.
  const double loss_bound = exact ? 1e-5 : 1e-2, bound = exact ? 1e-3 : 6e-2;
  std::string problem;
  if (!(loss_off <= loss_bound && gradients_off <= bound && parameters_off <= bound))
    problem = fmt::format(
        "stage {}: losses are off by {:.2g} (allowed {:.2g}), gradients by {:.2g} and parameters "
        "by {:.2g} (allowed {:.2g})",
        name, loss_off, loss_bound, gradients_off, parameters_off, bound);
  else if (on_gpu(true) != found)
    problem = fmt::format("stage {}: a second run gives other bits", name);
  else if (on_gpu(false) != found)
    problem = fmt::format("stage {}: without graphs the bits are others", name);
  report.add({{"test", "stage"},
              {"case", name},
              {"loss_off", loss_off},
              {"gradients_off", gradients_off},
              {"parameters_off", parameters_off}},
             problem);
}

int run(const Options& options) {
  std::unique_ptr<Device> device;
  try {
    device = open_cuda_device(options.gpu);
  } catch (const Error& error) {
    if (error.cause() != Cause::kUnsupported) throw;
    std::fprintf(stderr, "cuda_kernels_check: skipped: %s\n", error.what());
    return kNoGpu;
  }
  std::printf("%s, seed %u\n", device->describe().c_str(), options.seed);
  std::fflush(stdout);
  Report report(options.results);
  report.add({{"test", "device"}, {"case", device->describe()}, {"seed", options.seed}}, {});
  auto runner = std::make_unique<Runner>(*device);
  const auto check = [&](const testing::Case& c) { check_operation(*runner, report, c); };
  testing::for_operation_cases(
      options.small ? testing::Size::kSmall : testing::Size::kLarge, options.seed,
      [&](const Attention& attention) { return device->attention_scratch(attention); }, check);
  testing::for_product_cases(options.seed, check);
  runner.reset();
  device.reset();  // and its memory; each stage has a device of its own
  for (const int head_size : {64, 80, 32})
    for (const compute::Precision precision : {compute::Precision::kFloat32, compute::Precision::kBfloat16}) {
      if (options.small) break;
      check_stage(options.gpu, report, precision, head_size, options.seed);
    }
  std::printf("cuda_kernels_check: %d of %d cases right\n", report.cases() - report.failures(),
              report.cases());
  return report.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tombolo::trainer::cuda

int main(int argc, char** argv) try {
  tombolo::trainer::cuda::Options options;
  for (int at = 1; at < argc; at += 2) {
    const std::string name = argv[at];
    const std::string value = at + 1 < argc ? argv[at + 1] : "";
    const bool known = name == "--seed" || name == "--gpu" || name == "--results" ||
                       (name == "--size" && (value == "small" || value == "large"));
    if (!known || value.empty()) {
      std::fprintf(stderr,
                   "usage: cuda_kernels_check [--seed N] [--gpu N] [--size small|large] [--results FILE]\n");
      return 2;
    }
    if (name == "--seed") options.seed = static_cast<unsigned>(std::stoul(value));
    if (name == "--gpu") options.gpu = std::stoi(value);
    if (name == "--results") options.results = value;
    if (name == "--size") options.small = value == "small";
  }
  return tombolo::trainer::cuda::run(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "cuda_kernels_check: %s\n", error.what());
  return 1;
}
