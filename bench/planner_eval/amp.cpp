// AMP's measured runs on 4 nodes of 4 GPUs: a GPT-2 and a TransGAN whose two halves differ.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "bench/planner_eval/report.h"
#include "planner/cost/memory.h"
#include "planner/simulate/simulator.h"

namespace tombolo::bench {

namespace {

using namespace planner;

constexpr int kHosts = 4, kHostGpus = 4;
/// Usable share of a GPU's memory: PyTorch's caching allocator loses about a tenth to fragmentation.
constexpr double kUsable = 0.9;
/// Bytes of CUDA's context, the libraries' kernels and NCCL's buffers under PyTorch 1.7.
constexpr std::uint64_t kOverhead = 1'000'000'000;

/// Reads a one-dimensional array of doubles in NumPy's format, version 1: magic, two bytes of version, two of
/// the header's length, the header, the values.
std::vector<double> read_numpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  const std::string bytes = content.str();
  if (bytes.size() < 10 || bytes.compare(1, 5, "NUMPY") != 0)
    fail(Cause::kInvalidUsage, "{}: not a NumPy array", path);
  const std::size_t header =
      static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  if (bytes.size() < 10 + header)
    fail(Cause::kInvalidUsage, "{}: ends within its header of {} bytes", path, header);
  std::vector<double> values((bytes.size() - 10 - header) / sizeof(double));
  std::memcpy(values.data(), bytes.data() + 10 + header, values.size() * sizeof(double));
  return values;
}

struct Trial {
  int rows = 0, tensor = 0, data = 0, stages = 0;
  std::vector<int> borders;  ///< first layer of each stage, and the end
  double seconds = 0;        ///< infinite where it failed
};

std::vector<Trial> read_trials(const std::string& path) {
  std::ifstream file(path);
  std::vector<Trial> trials;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    Trial trial;
    const std::size_t open = line.find('['), close = line.find(']');
    if (std::sscanf(line.c_str(), "%d,%d,%d,%d", &trial.rows, &trial.tensor, &trial.data, &trial.stages) !=
            4 ||
        open == std::string::npos || close == std::string::npos || open > close)
      fail(Cause::kInvalidUsage, "{}: \"{}\" is no trial", path, line);
    std::istringstream borders(line.substr(open + 1, close - open - 1));
    for (int border = 0; borders >> border;) trial.borders.push_back(border);
    const std::string measured = line.substr(line.rfind(',') + 1);
    trial.seconds =
        measured == "inf" ? std::numeric_limits<double>::infinity() : std::strtod(measured.c_str(), nullptr);
    trials.push_back(std::move(trial));
  }
  return trials;
}

/// One of AMP's experiments.
struct Experiment {
  std::string trials, times, device;
  Job job;
  std::vector<int> first_layers;   ///< of the profile's entries that are transformer layers: begin, end pairs
  double network = 0, inside = 0;  ///< bytes per second between hosts, and between GPUs of a host
  double memory = 0;               ///< bytes of a GPU
  double wanted = 0;
};

/// The transformer layer that an entry of the profile stands for, or -1.
int layer_of(const Experiment& experiment, int entry) {
  int before = 0;
  for (std::size_t i = 0; i + 1 < experiment.first_layers.size(); i += 2) {
    if (entry >= experiment.first_layers[i] && entry < experiment.first_layers[i + 1])
      return before + entry - experiment.first_layers[i];
    before += experiment.first_layers[i + 1] - experiment.first_layers[i];
  }
  return -1;
}

/// TransGAN's last layers: width 16 on 288 x 288 points, 4 heads that look at windows of 18 x 18.
constexpr std::uint64_t kHeavyTokens = 288ull * 288, kHeavyWidth = 16, kHeavyHeads = 4, kWindow = 324;

/// Counts as layer_activation_bytes() does in fp16, but with whole maps, because TransGAN's ranks divide the
/// width of its heads, not their number.
std::uint64_t kept_by_heavy(int tensor) {
  const auto ranks = static_cast<std::uint64_t>(tensor);
  return kHeavyTokens * (10 * kHeavyWidth + 24 * kHeavyWidth / ranks + 5 * kHeavyHeads * kWindow);
}

/// The head keeps the logits in fp16, their fp32 copy and its exponentials, and the inputs of norm and
/// projection.
std::uint64_t kept_by_mixed_head(const Model& model, int tensor) {
  const auto context = static_cast<std::uint64_t>(model.context);
  return context * (4 * static_cast<std::uint64_t>(model.hidden) +
                    10 * static_cast<std::uint64_t>(model.vocabulary / tensor));
}

/// Adds the forward times of one row by tensor degree. What a degree takes beyond its share of degree 1 is
/// communication: the backward pass computes twice as much and communicates as much. Entries before the first
/// layer are the embedding, and all others that are no layers the head.
void add_times(const Experiment& experiment, const std::string& folder, Profile& profile) {
  std::vector<double> alone;
  for (const int tensor : {1, 2, 4}) {
    const auto forward = read_numpy(fmt::format("{}/{}_{}.npy", folder, experiment.times, tensor));
    if (tensor == 1) alone = forward;
    Profile::Measurement embedding, head;
    embedding.kind = Profile::kEmbedding;
    head.kind = Profile::kHead;
    embedding.tensor = head.tensor = tensor;
    for (std::size_t entry = 0; entry < forward.size(); ++entry) {
      const double compute = std::min(forward[entry], alone[entry] / tensor);
      const LayerTimes times{forward[entry], 2 * compute + (forward[entry] - compute), 0, 0};
      const int layer = layer_of(experiment, static_cast<int>(entry));
      if (layer < 0) {
        LayerTimes& sum =
            static_cast<int>(entry) < experiment.first_layers.front() ? embedding.times : head.times;
        sum.forward += times.forward;
        sum.backward += times.backward;
        continue;
      }
      Profile::Measurement one;
      one.kind = profile.layers[static_cast<std::size_t>(layer)];
      one.tensor = tensor;
      one.times = times;
      if (one.kind.starts_with("heavy")) one.times.kept_bytes = kept_by_heavy(tensor);
      profile.measurements.push_back(one);
    }
    head.times.kept_bytes = kept_by_mixed_head(experiment.job.model, tensor);
    profile.measurements.push_back(embedding);
    profile.measurements.push_back(head);
  }
}

topology::ClusterFile cluster_of(const Experiment& experiment) {
  topology::ClusterFile cluster;
  for (int i = 0; i < kHosts; ++i) {
    topology::Host host;
    host.name = "n" + std::to_string(i);
    host.cluster = "aws";
    topology::Nic nic;
    nic.name = "eth0";
    host.nics.push_back(nic);
    topology::Device device;
    device.name = experiment.device;
    device.kind = topology::DeviceKind::kGpu;
    device.memory_bytes = experiment.memory;
    host.devices.assign(kHostGpus, device);
    cluster.hosts.push_back(host);
  }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      cluster.links.push_back({from.name, "eth0", to.name, "eth0",
                               from.name == to.name ? experiment.inside : experiment.network, 0, true});
  return cluster;
}

/// A stage of these runs may hold no transformer layer, which the planner never proposes.
Plan plan_of(const Experiment& experiment, const Trial& trial) {
  Plan plan;
  plan.strategy = "measured";
  plan.routing = "per-peer";
  plan.job = experiment.job;
  plan.job.micro_batch = trial.rows;
  plan.job.data = trial.data;
  plan.job.tensor = trial.tensor;
  plan.job.pipeline = trial.stages;
  std::vector<Stage> stages;
  int next = 0;
  for (int stage = 0; stage < trial.stages; ++stage) {
    int layers = 0;
    for (int entry = trial.borders[static_cast<std::size_t>(stage)];
         entry < trial.borders[static_cast<std::size_t>(stage) + 1]; ++entry)
      layers += layer_of(experiment, entry) >= 0;
    stages.push_back({next, layers, trial.tensor});
    next += layers;
  }
  plan.pipelines = equal_pipelines(plan.job, stages);
  for (int rank = 0; rank < kHosts * kHostGpus; ++rank)
    plan.ranks.push_back({"n" + std::to_string(rank / kHostGpus), rank % kHostGpus,
                          rank / (trial.data * trial.tensor), rank / trial.tensor % trial.data,
                          rank % trial.tensor});
  return plan;
}

double needed(const Plan& plan) {
  std::uint64_t most = 0;
  for (const RankMemory& memory : memory_by_rank(plan)) most = std::max(most, memory.total);
  return static_cast<double>(most);
}

/// True where the same layout ran with a larger micro-batch, so that memory was not why it failed here.
bool failed_otherwise(const Trial& trial, const std::vector<Trial>& trials) {
  return std::isinf(trial.seconds) && std::ranges::any_of(trials, [&](const Trial& other) {
           return other.rows > trial.rows && other.tensor == trial.tensor && other.data == trial.data &&
                  other.stages == trial.stages && std::isfinite(other.seconds);
         });
}

/// True where the trial failed for lack of memory. Where some layout with as many rows and ranks per layer
/// failed for another reason, that is not known, and false is returned.
bool failed_for_memory(const Trial& trial, const std::vector<Trial>& trials) {
  return std::isinf(trial.seconds) && std::ranges::none_of(trials, [&](const Trial& other) {
           return other.rows == trial.rows && other.tensor == trial.tensor && failed_otherwise(other, trials);
         });
}

void evaluate(const Experiment& experiment, const std::string& folder, const EvaluationOptions& options,
              EvaluationReport& report, const std::string& name) {
  const std::string path = folder + '/' + experiment.trials;
  if (!std::filesystem::exists(path)) return report.note(skipped_without(path, options));
  const std::vector<Trial> trials = read_trials(path);
  const topology::ClusterFile cluster = cluster_of(experiment);
  std::vector<double> predicted, measured;
  int failed = 0, foreseen = 0, ran = 0, refused = 0;
  for (const Trial& trial : trials) {
    const Plan plan = plan_of(experiment, trial);
    const double bytes = needed(plan);
    const bool fits = bytes <= kUsable * experiment.memory;
    double seconds = 0;
    if (std::isfinite(trial.seconds)) {
      seconds = simulate(plan, cluster, {.bucket_bytes = 2'000'000'000, .spans = false}).step_seconds;
      predicted.push_back(seconds);
      measured.push_back(trial.seconds);
      ++ran;
      refused += !fits;
    } else if (failed_for_memory(trial, trials)) {
      ++failed;
      foreseen += !fits;
    }
    if (options.details)
      report.note(
          fmt::format("mbs {:>2} tp {} dp {:>2} pp {:>2}: {:.3f} s, measured {:.3f}; {:.1f} of {:.1f} GB{}",
                      trial.rows, trial.tensor, trial.data, trial.stages, seconds, trial.seconds, bytes / 1e9,
                      experiment.memory / 1e9, fits == std::isfinite(trial.seconds) ? "" : "  <-"));
  }
  const double correlation = rank_correlation(predicted, measured);
  report.line(fmt::format("{}: rank correlation over {} runs", name, ran),
              fmt::format(">= {:.2f}", experiment.wanted), fmt::format("{:.3f}", correlation),
              correlation >= experiment.wanted);
  report.line(fmt::format("{}: runs out of memory that were foreseen", name),
              fmt::format("{} of {}", failed, failed), fmt::format("{} of {}", foreseen, failed),
              foreseen == failed);
  report.note(
      fmt::format("{}: {} of the {} runs that succeeded would have been refused for memory. Left out: "
                  "failures that cannot "
                  "have been for memory, since a larger micro-batch ran ({}).",
                  name, refused, ran, std::ranges::count_if(trials, [&](const Trial& trial) {
                    return std::isinf(trial.seconds) && !failed_for_memory(trial, trials);
                  })));
}

Experiment gpt2() {
  Experiment experiment;
  experiment.trials = "homogeneous_trials.csv";
  experiment.times = "gpt2_G4";
  experiment.device = "T4";
  experiment.first_layers = {2, 26};
  experiment.wanted = 0.95;
  experiment.network = 50e9 / 8;  // g4dn.12xlarge
  experiment.inside = 6e9;        // PCIe 3.0 x8, which these GPUs share in pairs
  experiment.memory = 15109.0 * (1 << 20);
  Model& model = experiment.job.model;
  model.layers = 24;
  model.hidden = model.context = 1024;
  model.heads = 16;
  model.vocabulary = 52256;
  model.bytes_per_value = 2;
  experiment.job.global_batch = 32;
  return experiment;
}

/// The model has 12 layers of width 1024 on 81 tokens, then 12 of width 16 on windows of 324 of 82,944
/// tokens.
Experiment transgan() {
  Experiment experiment;
  experiment.trials = "het_model_trials.csv";
  experiment.times = "transgan_P3";
  experiment.device = "V100";
  experiment.first_layers = {3, 15, 41, 53};
  experiment.wanted = 0.9;
  experiment.network = 10e9 / 8;  // p3.8xlarge
  experiment.inside = 170e9 / 8;  // NVLink
  experiment.memory = 16160.0 * (1 << 20);
  Model& model = experiment.job.model;
  model.layers = 24;
  model.hidden = 1024;
  model.heads = 4;
  model.context = 81;
  model.vocabulary = 1;
  model.tied_embeddings = false;
  model.bytes_per_value = 2;
  experiment.job.global_batch = 64;
  return experiment;
}

}  // namespace

void evaluate_amp(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("AMP's runs on 4 nodes of 4 GPUs");
  const std::string folder = options.data + "/amp", times = folder + "/known_cost";
  if (!std::filesystem::exists(times)) return report.note(skipped_without(times, options));
  for (Experiment experiment : {gpt2(), transgan()}) {
    const bool uneven = experiment.trials.starts_with("het");
    Job& job = experiment.job;
    job.framework = Framework::kMegatron;
    job.fused_attention = false;  // which Megatron-LM had not yet
    job.overlap_gradients = false;
    job.sends = StageSends::kInTurn;
    auto profile = std::make_shared<Profile>();
    profile->overhead_bytes = kOverhead;
    for (int layer = 0; layer < job.model.layers; ++layer)
      profile->layers.push_back(fmt::format("{}{}", uneven && layer >= 12 ? "heavy" : "light", layer));
    if (uneven) {
      profile->kinds.push_back({std::string(Profile::kEmbedding), 512ull * 81 * 1024 + 81 * 1024,
                                512ull * 81 * 1024 + 81 * 1024, 0});
      for (int layer = 12; layer < 24; ++layer)
        profile->kinds.push_back({fmt::format("heavy{}", layer), 12 * kHeavyWidth * kHeavyWidth, 0,
                                  static_cast<double>(kHeavyTokens * kHeavyWidth * 2)});
    }
    add_times(experiment, times, *profile);
    job.profile = profile;
    evaluate(experiment, folder, options, report, uneven ? "TransGAN" : "GPT-2");
  }
  report.note(
      "No number was fitted by an algorithm, but the memory rule (1 GB for context and libraries, a tenth "
      "for the "
      "allocator's fragments) was chosen with these outcomes known. Only forward times of single rows are "
      "known: rows "
      "in proportion, backward passes twice the computing and once the communication. Rates as the instances "
      "are sold.");
}

}  // namespace tombolo::bench
