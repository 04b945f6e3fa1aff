// FlashFlex's clusters: compares the plans of its strategy with those of a simple search and with an upper
// bound.
#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/json.h"
#include "bench/planner_eval/clusters.h"
#include "bench/planner_eval/report.h"
#include "planner/strategies/machine_aligned.h"

namespace tombolo::bench {

namespace {

using namespace planner;

double tokens_per_second(const Job& job, double seconds) {
  return job.global_batch * static_cast<double>(job.model.context) / seconds;
}

/// The upper bound: what all devices attain together without communication, bubbles and recomputation. No
/// plan comes close to it.
double most_tokens_per_second(const topology::ClusterFile& cluster, const Job& job) {
  double flops = 0;
  for (const auto& host : cluster.hosts)
    for (const auto& device : host.devices) flops += device.flops_per_second;
  const double row =
      3 * (job.model.layers * job.model.layer_forward_flops() + job.model.head_forward_flops());
  return flops / row * job.model.context;
}

}  // namespace

void evaluate_flashflex(const EvaluationOptions& options, EvaluationReport& report) {
  report.section("FlashFlex's clusters, against the machine-aligned search");
  const std::string folder = options.data + "/flashflex", specs = folder + "/machine_amounts.json";
  if (!std::filesystem::exists(specs)) return report.note(skipped_without(specs, options));
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
        Job job = llama_job(whole("n_layers"), whole("dim"), whole("n_heads"), whole("multiple_of"),
                            whole("vocab_size"), 128);
        // Times are of FLOPs alone, which count all of attention's core, and so its weights count too.
        job.fused_attention = false;
        std::vector<std::pair<Machines, Spec>> with_specs;
        std::string text;
        for (const Machines& some : machines) {
          with_specs.emplace_back(some, spec_of(some.type));
          text += fmt::format("{}{}x{}", text.empty() ? "" : " + ", some.hosts * some.devices,
                              some.type.substr(0, some.type.find('-')));
        }
        const topology::ClusterFile cluster = cluster_of(with_specs, rate);
        PlanOptions plan_options = options_for("flashflex");
        const ClusterView view(cluster, "per-peer", {});
        const auto slots = launcher_slots(view, {});
        PlanOptions simple = plan_options;
        std::erase_if(simple.savings,
                      [](const Saving& saving) { return saving.sharding != Sharding::kNone; });
        const auto aligned = machine_aligned_plan({view, view, slots, simple}, job);
        plan_options.may_leave_out = true;
        const std::clock_t start = std::clock();
        const Plan ours = make_plan(cluster, job, plan_options);
        const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        const double usual = aligned ? tokens_per_second(job, aligned->prediction.step_seconds) : 0;
        const double now = ours.prediction.tokens_per_second;
        report.line(fmt::format("{}, {} at {:g} GB/s: tokens per second", text, name, rate / 1e9),
                    fmt::format(">= 1.2 x {:.0f}", usual),
                    fmt::format("{:.0f}{} in {:.2f} s; {} of {} GPUs; bound {:.0f}", now,
                                usual > 0 ? fmt::format(" ({:.2f} x)", now / usual) : "", took,
                                ours.ranks.size(), slots.size(), most_tokens_per_second(cluster, job)),
                    now >= 1.2 * usual && took < 1);
        if (options.details) {
          report.note(fmt::format("{}, {} at {:g} GB/s: {}", text, name, rate / 1e9, ours.shape()));
          for (const std::string& note : ours.notes) report.note("  " + note);
        }
      }
  report.note(
      "Both by this planner's simulator: 128 rows of 2048 tokens, fp16, half of the data's peak FLOP/s, "
      "attention that is not fused; "
      "processor time of the search. Ours may leave "
      "GPUs out, put replicas side by side on a host, and shard the optimizer's state; the simple search "
      "knows "
      "tensor degrees, divisions of whole machines and recomputation. The bound is what all GPUs would "
      "compute if nothing "
      "were ever sent, waited for or computed again.");
}

}  // namespace tombolo::bench
