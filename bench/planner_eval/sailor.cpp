// Sailor's measured runs of OPT-350M on GH200s: predicted by its profile of layers and its network fits.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "base/units.h"
#include "bench/planner_eval/report.h"
#include "planner/cost/memory.h"
#include "planner/cost/slot_parameters.h"
#include "planner/plan/layer_split.h"
#include "planner/simulate/simulator.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr const char* kGpu = "GH-96";
constexpr int kGpus = 4;  // of a host; every run shares each layer among them

/// A fit of the bytes per second when GPUs of a host send at once: a parabola in log2(MB) below a plateau.
struct Fit {
  std::vector<double> polynomial;
  double plateau = 0;

  static Fit parse(const JsonCursor& at) {
    Fit fit;
    const auto parts = at.elements();
    for (const JsonCursor& factor : parts.at(0).elements()) fit.polynomial.push_back(factor.number());
    fit.plateau = parts.at(1).positive_number();
    return fit;
  }

  double at_bytes(double bytes) const {
    const double x = std::log2(bytes / 1e6);
    double gigabytes = 0;
    for (const double factor : polynomial) gigabytes = gigabytes * x + factor;
    // Below the sizes that were measured the parabola falls under zero; a link of less than 1 GB/s has no
    // floor.
    return std::min(std::max(gigabytes * 1e9, 1e9), plateau);
  }
};

Model opt_350m(const JsonCursor& config) {
  Model model;
  model.name = "OPT-350M";
  const auto whole = [&](const char* name) {
    return static_cast<int>(config.field(name).integer(1, 1'000'000));
  };
  model.layers = whole("num_layers");
  model.hidden = whole("hidden_size");
  model.heads = whole("heads");
  model.context = whole("sequence_length");
  model.vocabulary = whole("vocab_size");
  model.bytes_per_value = 4;  // trained in fp32: neither --fp16 nor --bf16 is given
  return model;
}

/// The bytes that a layer keeps per row and rank, in fp32. Whole on every rank are the inputs of both norms
/// and of both pairs of products, and the two masks of the residuals' dropout; divided are queries, keys,
/// values, the core's output and the ReLU's output, and, by heads, the softmax's output. OPT has no dropout
/// inside attention, and a ReLU's backward pass needs only its output.
double kept_by_layer(const Model& model, int tensor) {
  const double tokens = model.context, hidden = model.hidden;
  const double whole = (4 * 4 + 2) * hidden, divided = 4 * (3 + 1 + 4) * hidden;
  const double core = 4.0 * model.heads * model.context;
  return tokens * (whole + (divided + core) / tensor);
}

/// The head keeps the inputs of the final norm and of the projection, the logits, and the softmax for the
/// loss.
double kept_by_head(const Model& model, int tensor) {
  return model.context * (2.0 * 4 * model.hidden + 2.0 * 4 * model.vocabulary / tensor);
}

std::shared_ptr<Profile> profile_of(const JsonCursor& measured, const Model& model) {
  auto profile = std::make_shared<Profile>();
  profile->layers.assign(static_cast<std::size_t>(model.layers), "layer");
  profile->layers.front() = "first layer";
  const std::string head = std::to_string(model.layers + 1);
  for (const auto& [rows, degrees] : measured.members())
    for (const auto& [degree, layers] : degrees.members())
      for (const auto& [number, kind] : {std::pair<std::string, std::string>{"0", Profile::kEmbedding},
                                         {"1", "first layer"},
                                         {"2", "layer"},
                                         {head, std::string(Profile::kHead)}}) {
        Profile::Measurement one;
        one.device = kGpu;
        one.kind = kind;
        one.micro_batch = std::stoi(rows);
        one.tensor = std::stoi(degree);
        const auto seconds = layers.field(number).elements();
        one.times.forward = seconds.at(0).number();
        one.times.backward = seconds.at(1).number();
        one.times.update = seconds.at(2).number();
        const double kept = kind == Profile::kHead        ? kept_by_head(model, one.tensor)
                            : kind == Profile::kEmbedding ? 0
                                                          : kept_by_layer(model, one.tensor);
        one.times.kept_bytes = static_cast<std::uint64_t>(kept * one.micro_batch);
        profile->measurements.push_back(one);
      }
  return profile;
}

struct Run {
  std::string name;
  Plan plan;
  double seconds = 0, peak_bytes = 0;
  double reduction_seconds = 0;  ///< of the gradients, as the run measured them
};

/// Sailor counts the embedding as layer 0 and the projection as the last.
Run read_run(const std::string& path, const Model& model, std::shared_ptr<const Profile> profile) {
  const JsonDocument document = JsonDocument::load(path);
  const JsonCursor root = document.root(), pipeline = root.field("pipeline_list").elements().at(0);
  Run run;
  run.name = std::filesystem::path(path).stem().string();
  run.seconds = root.field("real").positive_number();
  run.peak_bytes = root.field("max_mem").positive_number();
  run.reduction_seconds = root.field("red_grads").positive_number();
  Job& job = run.plan.job;
  job.model = model;
  job.global_batch = static_cast<int>(root.field("gbs").integer(1, 1'000'000));
  job.micro_batch = static_cast<int>(root.field("mbs").integer(1, 1'000'000));
  job.data = static_cast<int>(pipeline.field("dp").elements().at(0).integer(1, 1'000'000));
  job.tensor = kGpus;
  job.framework = Framework::kDeepSpeed;
  job.overlap_gradients = false;  // its pipeline engine reduces them after the last backward pass
  job.sends = traits(job.framework).sends;
  job.profile = std::move(profile);
  std::vector<int> layers;
  for (const JsonCursor& stage : pipeline.field("layers_per_stage").elements()) {
    layers.push_back(0);
    for (const JsonCursor& layer : stage.elements()) {
      const auto number = layer.integer(0, model.layers + 1);
      layers.back() += number > 0 && number <= model.layers;
    }
  }
  job.pipeline = static_cast<int>(layers.size());
  std::vector<Stage> stages = to_stages(layers);
  for (Stage& stage : stages) stage.tensor = kGpus;
  run.plan.strategy = "measured";
  run.plan.routing = "per-peer";
  run.plan.pipelines = equal_pipelines(job, stages);
  for (int stage = 0; stage < job.pipeline; ++stage)
    for (int replica = 0; replica < job.data; ++replica)
      for (int gpu = 0; gpu < kGpus; ++gpu)
        run.plan.ranks.push_back(
            {"n" + std::to_string(stage * job.data + replica), gpu, stage, replica, gpu});
  return run;
}

/// A cluster of as many hosts as the plan needs, whose NICs together give `bytes_per_second`, and whose
/// devices give each other `inside`.
topology::ClusterFile cluster_for(const Plan& plan, double bytes_per_second, double inside) {
  topology::ClusterFile cluster;
  for (const std::string& name : hosts_of(plan)) {
    topology::Host host;
    host.name = name;
    host.cluster = "alps";
    host.device_bytes_per_second = inside;
    topology::Nic nic;
    nic.name = "slingshot";
    host.nics.push_back(nic);
    topology::Device device;
    device.name = kGpu;
    device.kind = topology::DeviceKind::kGpu;
    host.devices.assign(kGpus, device);
    cluster.hosts.push_back(host);
  }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      if (from.name != to.name)
        cluster.links.push_back({from.name, "slingshot", to.name, "slingshot", bytes_per_second, 0, true});
  return cluster;
}

/// The seconds of a ring over the gradients of the largest stage, with a host's NICs at that rate.
double ring_seconds(const Plan& plan, const Fit& fit) {
  std::uint64_t parameters = 0;
  for (int stage = 0; stage < plan.job.pipeline; ++stage)
    parameters = std::max(parameters, slot_parameters(plan, 0, stage));
  const double n = plan.job.data, sent = 2 * (n - 1) / n * 4.0 * static_cast<double>(parameters);
  return sent * kGpus / fit.at_bytes(sent);
}

/// How much longer the runs with several replicas measured that to take, in the median; one of them took
/// seconds.
double median_ring_ratio(const std::vector<Run>& runs, const Fit& fit) {
  std::vector<double> ratios;
  for (const Run& run : runs)
    if (run.plan.job.data > 1) ratios.push_back(run.reduction_seconds / ring_seconds(run.plan, fit));
  std::ranges::sort(ratios);
  return ratios.empty() ? 0 : (ratios[ratios.size() / 2] + ratios[(ratios.size() - 1) / 2]) / 2;
}

double peak(const Plan& plan) {
  std::uint64_t most = 0;
  for (const RankMemory& memory : memory_by_rank(plan)) most = std::max(most, memory.total);
  return static_cast<double>(most);
}

}  // namespace

void evaluate_sailor(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("Sailor's runs of OPT-350M on 1 to 32 nodes of 4 GH200");
  const std::string folder = options.data + "/sailor";
  const std::string runs_folder = folder + "/validation/gh200_opt_350";
  if (!std::filesystem::exists(runs_folder)) return report.note(skipped_without(runs_folder, options));
  const JsonDocument config = JsonDocument::load(folder + "/training_config_opt_350.json");
  const JsonDocument measured = JsonDocument::load(folder + "/profiles/opt_350_gh96.json");
  const JsonDocument network = JsonDocument::load(folder + "/network/network_coeffs_all_homo.json");
  const Model model = opt_350m(config.root());
  const std::shared_ptr<Profile> profile = profile_of(measured.root(), model);
  const auto fit_of = [&](const char* where, int gpus) {
    return Fit::parse(network.root().field(where).field(kGpu).field(std::to_string(gpus)));
  };
  // Between hosts the runs' own reductions of gradients say which of the fits holds in training: see the
  // note.
  const Fit between = fit_of("inter", 1), together = fit_of("inter", kGpus), inside = fit_of("intra", kGpus);

  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(runs_folder))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::ranges::sort(paths);

  std::vector<double> predicted, seconds, memory, peaks;
  std::vector<std::string> names;
  std::vector<Run> runs;
  for (const std::string& path : paths) {
    const Run& run = runs.emplace_back(read_run(path, model, profile));
    const Job& job = run.plan.job;
    // The fits are by what each GPU sends, and are evaluated at the size that is sent most: a GPU's part of a
    // boundary, or without stages of the gradients.
    const double message = (job.pipeline > 1 ? model.boundary_bytes() * job.micro_batch
                                             : static_cast<double>(model.parameters()) * 4) /
                           kGpus;
    const topology::ClusterFile cluster =
        cluster_for(run.plan, between.at_bytes(message), inside.at_bytes(message));
    predicted.push_back(
        simulate(run.plan, cluster, {.bucket_bytes = 2'000'000'000, .spans = false}).step_seconds);
    seconds.push_back(run.seconds);
    memory.push_back(peak(run.plan));
    peaks.push_back(run.peak_bytes);
    names.push_back(run.name);
  }
  report.line(fmt::format("iteration time of {} runs, mean absolute error", predicted.size()), "<= 8 %",
              fmt::format("{:.1f} %", 100 * mean_absolute_error(predicted, seconds)),
              mean_absolute_error(predicted, seconds) <= 0.08);
  const double uncalibrated = mean_absolute_error(memory, peaks);
  // nvidia-smi also counts memory that no tensor holds: the context, libraries, NCCL's buffers. One number
  // for all runs is derived from the smallest run, which is then no test.
  const auto smallest = static_cast<std::size_t>(
      std::ranges::find_if(names, [](const auto& name) { return name.ends_with("_G1"); }) - names.begin());
  if (smallest < names.size()) {
    const double overhead = peaks[smallest] - memory[smallest];
    std::vector<double> with, tested;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i] += overhead;
      if (i == smallest) continue;
      with.push_back(memory[i]);
      tested.push_back(peaks[i]);
    }
    report.line(fmt::format("peak memory of the other {} runs, mean absolute error", with.size()), "<= 5 %",
                fmt::format("{:.1f} % (1 constant fitted)", 100 * mean_absolute_error(with, tested)),
                mean_absolute_error(with, tested) <= 0.05);
    report.note(fmt::format(
        "Memory: 1 free parameter, what nvidia-smi counts beside tensors (context, libraries, NCCL), {} from "
        "the run {}. Without it, over all runs: {:.1f} %.",
        format_size(static_cast<std::uint64_t>(std::max(0.0, overhead))), names[smallest],
        100 * uncalibrated));
  }
  report.note(fmt::format(
      "Time: 0 free parameters. Layers by the profile (no micro-batch takes longer than a larger one), links "
      "by the network's fit at the size of the message, sends that block and gradients after the backward "
      "pass as DeepSpeed's pipeline engine does. Between hosts a host's four GPUs share what the network's "
      "fit has for one. This was chosen with the step times known, but the runs' own reductions of gradients "
      "say the same: in the median these took {:.1f} times as long as rings at that rate, and {:.1f} times "
      "as long as at the rate of four GPUs that send at once. The largest errors are of one host and "
      "micro-batches of one row, where the profile timed each layer's launches and waits alone.",
      median_ring_ratio(runs, between), median_ring_ratio(runs, together)));
  if (options.details)
    for (std::size_t i = 0; i < names.size(); ++i)
      report.note(
          fmt::format("{:<28} {:.4f} s, measured {:.4f} ({:+.1f} %); {:.2f} GB, measured {:.2f} ({:+.1f} %)",
                      names[i], predicted[i], seconds[i], 100 * (predicted[i] / seconds[i] - 1),
                      memory[i] / 1e9, peaks[i] / 1e9, 100 * (memory[i] / peaks[i] - 1)));
}

}  // namespace tombolo::bench
