// What the searches find, and how fast: FlashFlex's clusters, random clusters, large clusters.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "bench/planner_eval/report.h"
#include "planner/testing_search.h"

namespace tombolo::bench {

namespace {

using namespace planner;
using testing::Everything;
using testing::random_cluster;
using testing::random_job;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Machines {
  std::string type;
  int hosts = 1, devices = 8;
};

struct Spec {
  double flops = 0, memory = 0, inside = 0;
};

topology::ClusterFile cluster_of(const std::vector<std::pair<Machines, Spec>>& machines,
                                 double bytes_per_second) {
  topology::ClusterFile cluster;
  for (const auto& [some, spec] : machines)
    for (int i = 0; i < some.hosts; ++i) {
      topology::Host host;
      host.name = fmt::format("{}-{}-{}", some.type, some.devices, i);
      host.cluster = "one";
      topology::Nic nic;
      nic.name = "eth";
      host.nics.push_back(nic);
      topology::Device device;
      device.name = some.type;
      device.kind = topology::DeviceKind::kGpu;
      device.flops_per_second = spec.flops;
      device.memory_bytes = spec.memory;
      host.devices.assign(static_cast<std::size_t>(some.devices), device);
      cluster.links.push_back({host.name, "eth", host.name, "eth", spec.inside, 0, false});
      cluster.hosts.push_back(host);
    }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      if (from.name != to.name)
        cluster.links.push_back({from.name, "eth", to.name, "eth", bytes_per_second, 20e-6, false});
  return cluster;
}

Job llama_job(int layers, int hidden, int heads, int multiple, int vocabulary, int rows) {
  Job job;
  Model& model = job.model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.context = 2048;
  model.vocabulary = vocabulary;
  model.feed_forward = (8 * hidden / 3 + multiple - 1) / multiple * multiple;
  model.gated = true;
  model.biases = model.learned_positions = model.tied_embeddings = false;
  model.bytes_per_value = 2;
  job.global_batch = rows;
  job.tensor = 0;
  job.framework = Framework::kMegatron;
  job.fp32_gradients = false;
  return job;
}

PlanOptions options_for(Strategy strategy) {
  PlanOptions options;
  options.strategy = strategy;
  options.recompute = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  return options;
}

double tokens_per_second(const Job& job, double seconds) {
  return job.global_batch * static_cast<double>(job.model.context) / seconds;
}

/// Two layers to `most_layers`, one row to `most_rows`.
Job between(std::mt19937_64& random, int most_layers, int most_rows) {
  const int layers = std::uniform_int_distribution(2, most_layers)(random);
  return random_job(random, layers, std::uniform_int_distribution(1, most_rows)(random));
}

double seconds_by(const topology::ClusterFile& cluster, const Job& job, Strategy strategy) {
  PlanOptions options;
  options.strategy = strategy;
  try {
    return make_plan(cluster, job, options).prediction.step_seconds;
  } catch (const Error&) {
    return Scorer::kNever;
  }
}

}  // namespace

void evaluate_flashflex(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("FlashFlex's clusters, against the machine-aligned search");
  const std::string folder = options.data + "/flashflex", specs = folder + "/machine_amounts.json";
  if (!std::filesystem::exists(specs)) return report.note("skipped: there is no " + specs);
  const JsonDocument document = JsonDocument::load(specs);
  const auto spec_of = [&](const std::string& type) {
    const auto numbers = document.root().field("machine_specs").field(type).elements();
    return Spec{numbers.at(0).positive_number() * 1e12 / 2, numbers.at(1).positive_number() * 1e9,
                numbers.at(2).positive_number() * 1e9};
  };
  const std::vector<std::pair<std::vector<Machines>, std::vector<std::string>>> clusters{
      {{{"3080Ti", 1, 8}, {"3090", 1, 8}, {"4090", 3, 8}}, {"7b", "13b"}},
      {{{"3080Ti", 1, 8}, {"3090", 1, 8}, {"4090", 1, 8}, {"A100", 1, 8}}, {"7b", "13b"}},
      {{{"3090", 1, 8}, {"4090-4", 2, 4}, {"4090", 4, 8}, {"A100", 1, 8}}, {"30b"}}};
  for (const auto& [machines, models] : clusters)
    for (const std::string& name : models)
      for (const double rate : {0.5e9, 5e9}) {
        const JsonDocument shape =
            JsonDocument::load(fmt::format("{}/llama-config/llama-{}.json", folder, name));
        const auto whole = [&](const char* field) {
          return static_cast<int>(shape.root().field(field).integer(1, 1'000'000));
        };
        const Job job = llama_job(whole("n_layers"), whole("dim"), whole("n_heads"), whole("multiple_of"),
                                  whole("vocab_size"), 128);
        std::vector<std::pair<Machines, Spec>> with_specs;
        std::string text;
        for (const Machines& some : machines) {
          with_specs.emplace_back(some, spec_of(some.type));
          text += fmt::format("{}{}x{}", text.empty() ? "" : " + ", some.hosts * some.devices,
                              some.type.substr(0, some.type.find('-')));
        }
        const topology::ClusterFile cluster = cluster_of(with_specs, rate);
        const PlanOptions plan_options = options_for(Strategy::kFlashFlex);
        const ClusterView view(cluster, "per-peer", {});
        const auto slots = launcher_slots(view, {});
        const auto aligned = machine_aligned_plan({view, view, slots, plan_options}, job);
        const std::clock_t start = std::clock();
        const Plan ours = make_plan(cluster, job, plan_options);
        const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        const double usual = aligned ? tokens_per_second(job, aligned->prediction.step_seconds) : 0;
        const double now = ours.prediction.tokens_per_second;
        report.line(fmt::format("{}, {} at {:g} GB/s: tokens per second", text, name, rate / 1e9),
                    fmt::format(">= 1.2 x {:.0f}", usual),
                    fmt::format("{:.0f}{} in {:.2f} s", now,
                                usual > 0 ? fmt::format(" ({:.2f} x)", now / usual) : "", took),
                    now >= 1.2 * usual && took < 1);
      }
  report.note(
      "Both by this planner's simulator: 128 rows of 2048 tokens, fp16, half of the data's peak FLOP/s; "
      "processor time of the search.");
}

void evaluate_random(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("auto on random clusters");
  std::mt19937_64 random(options.seed);
  int equal = 0;
  const int small = options.trials / 4;
  for (int trial = 0; trial < small; ++trial) {
    const int devices = 1 + trial % 6;
    const topology::ClusterFile cluster = random_cluster(random, devices);
    const Job job = between(random, devices > 4 ? 3 : 5, devices > 4 ? 3 : 5);
    const double best = Everything(cluster, job).best(), found = seconds_by(cluster, job, Strategy::kAuto);
    equal += best == found || std::abs(found / best - 1) < 1e-8;
  }
  report.line("clusters of up to 6 GPUs on which auto equals exhaustive search",
              fmt::format("{} of {}", small, small), fmt::format("{} of {}", equal, small), equal == small);
  int worse = 0;
  for (int trial = 0; trial < options.trials; ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 7 + static_cast<int>(random() % 10));
    const Job job = between(random, 12, 16);
    const double best = seconds_by(cluster, job, Strategy::kAuto);
    for (const Strategy strategy :
         {Strategy::kMegatron, Strategy::kHolmes, Strategy::kPipette, Strategy::kFlashFlex})
      worse += best > seconds_by(cluster, job, strategy) * (1 + 1e-9);
  }
  report.line(fmt::format("larger clusters, of {}, on which another is better", options.trials), "0",
              std::to_string(worse), worse == 0);
  report.note(fmt::format("Seed {}. The exhaustive search visits every layout: no bounds, no symmetry.",
                          options.seed));
}

void evaluate_scale(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("Time and memory of auto");
  struct Size {
    int hosts;
    double seconds;
    Job job;
  };
  const Job seven = llama_job(32, 4096, 32, 256, 32000, 512),
            seventy = llama_job(80, 8192, 64, 256, 32000, 2048);
  for (const Size& size : {Size{8, 2, seven}, Size{128, 30, seventy}, Size{1024, 300, seventy}}) {
    if (size.hosts * 8 > options.most_ranks) continue;
    const topology::ClusterFile cluster = cluster_of({{{"A100", size.hosts / 2, 8}, {250e12, 80e9, 200e9}},
                                                      {{"A800", size.hosts / 2, 8}, {200e12, 80e9, 150e9}}},
                                                     20e9);
    const auto start = Clock::now();
    Job job = size.job;
    const Plan plan = make_plan(cluster, job, options_for(Strategy::kAuto));
    const double took = seconds_since(start);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double gigabytes = static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
    report.line(
        fmt::format("{} GPUs, {} layers", size.hosts * 8, job.model.layers),
        fmt::format("< {:.0f} s, < 4 GB", size.seconds),
        fmt::format("{:.1f} s, {:.2f} GB, step {:.2f} s", took, gigabytes, plan.prediction.step_seconds),
        took < size.seconds && gigabytes < 4);
  }
}

}  // namespace tombolo::bench
