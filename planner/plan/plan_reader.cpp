// Reads the plan file, which docs/plan-file.md describes for people.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "planner/model/model_json.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

namespace {

constexpr int kMany = std::numeric_limits<int>::max();

int whole(const JsonCursor& at, int low, int high = kMany) {
  return static_cast<int>(at.integer(low, high));
}

template <typename Value>
Value named(const JsonCursor& at, std::optional<Value> (*from_name)(std::string_view) noexcept,
            std::string_view names) {
  const std::string text = at.text();
  const auto value = from_name(text);
  if (!value) at.reject(fmt::format("expected {}, found \"{}\"", names, text));
  return *value;
}

void parse_job(const JsonCursor& at, Job& job) {
  at.only({"global_batch",
           "micro_batch",
           "pipeline",
           "data",
           "tensor",
           "schedule",
           "chunks",
           "recompute",
           "recompute_layers",
           "sequence_parallel",
           "shard_optimizer",
           "sharding",
           "context_parallel",
           "context_exchange",
           "expert_parallel",
           "precision",
           "fused_attention",
           "overlap_tensor",
           "overlap_parameters",
           "overlap_gradients",
           "blocking_sends",
           "sends",
           "fp32_gradients",
           "framework",
           "software",
           "device",
           "moments"});
  job.global_batch = whole(at.field("global_batch"), 1);
  job.micro_batch = whole(at.field("micro_batch"), 1, job.global_batch);
  job.pipeline = whole(at.field("pipeline"), 1);
  job.data = whole(at.field("data"), 1);
  if (const auto field = at.optional("tensor")) job.tensor = whole(*field, 1);
  if (const auto field = at.optional("schedule"))
    job.schedule = named(*field, schedule_from_name,
                         "gpipe, 1f1b, interleaved, zero-bubble-h1 or interleaved-zero-bubble");
  if (const auto field = at.optional("chunks")) job.chunks = whole(*field, 1);
  if (const auto field = at.optional("recompute"))
    job.recompute = named(*field, recompute_from_name, "none, selective or full");
  if (const auto field = at.optional("recompute_layers"))
    job.recompute_layers = whole(*field, 1, job.model.layers);
  if (const auto field = at.optional("sequence_parallel")) job.sequence_parallel = field->boolean();
  if (const auto field = at.optional("sharding"))
    job.sharding = named(*field, sharding_from_name, "none, optimizer, gradients or parameters");
  if (const auto field = at.optional("shard_optimizer"); field && field->boolean()) {
    // What plans of earlier versions say.
    if (job.sharded()) field->reject("\"sharding\" says it too; keep that");
    job.sharding = Sharding::kOptimizer;
  }
  if (const auto field = at.optional("context_parallel")) job.context_parallel = whole(*field, 1);
  if (const auto field = at.optional("context_exchange"))
    job.context_exchange = named(*field, context_exchange_from_name, "ring or all-to-all");
  if (const auto field = at.optional("expert_parallel")) job.expert_parallel = whole(*field, 1);
  if (const auto field = at.optional("precision"))
    job.precision = named(*field, precision_from_name, "fp32, tf32, fp16, bf16, fp8-hybrid or fp8-e4m3");
  if (const auto field = at.optional("fused_attention")) job.fused_attention = field->boolean();
  if (const auto field = at.optional("overlap_tensor")) job.overlap_tensor = field->boolean();
  if (const auto field = at.optional("overlap_parameters")) job.overlap_parameters = field->boolean();
  if (const auto field = at.optional("overlap_gradients")) job.overlap_gradients = field->boolean();
  if (const auto field = at.optional("sends"))
    job.sends = named(*field, stage_sends_from_name, "beside, in-turn or together");
  if (const auto field = at.optional("blocking_sends"); field && field->boolean()) {
    // What plans of earlier versions say.
    if (job.sends != StageSends::kBeside) field->reject("\"sends\" says it too; keep that");
    job.sends = StageSends::kInTurn;
  }
  if (job.sends != StageSends::kBeside && !job.blocks_sends())
    at.reject(fmt::format("schedule {} sends beside computing, and \"sends\" is {}; leave it out",
                          schedule_name(job.schedule), stage_sends_name(job.sends)));
  if (const auto field = at.optional("fp32_gradients")) job.fp32_gradients = field->boolean();
  if (const auto field = at.optional("framework"))
    job.framework = named(*field, framework_from_name, "tombolo, megatron, deepspeed, torchtitan or nemo");
  if (const auto field = at.optional("software")) job.software = field->text();
  if (const auto field = at.optional("device"))
    job.device = named(*field, trainer_device_from_name, "cpu or cuda");
  if (const auto field = at.optional("moments"))
    job.moment_bytes = field->choice({"fp32", "bf16"}) == 0 ? 4 : 2;
  try {
    job.check();
  } catch (const Error& error) {
    at.reject(error.what());
  }
}

void check_equal_shares(const JsonCursor& at, const Job& job) {
  if (job.replica_rows() % (static_cast<std::int64_t>(job.data) * job.micro_batch) != 0)
    at.field("global_batch")
        .reject(
            fmt::format("{} rows do not divide into {} replicas of micro-batches of {} rows; take a multiple "
                        "of {}, or another micro_batch",
                        job.global_batch, job.data, job.micro_batch,
                        static_cast<std::int64_t>(job.data) * job.micro_batch));
}

std::vector<Stage> parse_stages(const JsonCursor& at, const Job& job) {
  std::vector<Stage> stages;
  int next = 0;
  for (const JsonCursor& item : at.elements()) {
    item.only({"first_layer", "layers", "tensor"});
    Stage stage{whole(item.field("first_layer"), 0), whole(item.field("layers"), 1), job.tensor};
    if (const auto tensor = item.optional("tensor")) stage.tensor = whole(*tensor, 1, job.model.heads);
    if (stage.first_layer != next)
      item.field("first_layer")
          .reject(fmt::format(
              "stage {} begins at layer {}, but the stages before it end at layer {}; stages must "
              "tile the layers in order",
              stages.size(), stage.first_layer, next));
    if (stage.layers > job.model.layers - next)
      item.field("layers").reject(
          fmt::format("stage {} takes layers {} to {}, but the model has only {} layers", stages.size(), next,
                      static_cast<std::int64_t>(next) + stage.layers - 1, job.model.layers));
    next += stage.layers;
    stages.push_back(stage);
  }
  if (next != job.model.layers)
    at.reject(fmt::format("the stages hold {} layers, but model.layers is {}; every layer must be on a stage",
                          next, job.model.layers));
  if (stages.size() % static_cast<std::size_t>(job.chunks) != 0)
    at.reject(fmt::format("{} stages do not divide into {} chunks each", stages.size(), job.chunks));
  const std::size_t places = stages.size() / static_cast<std::size_t>(job.chunks);
  for (std::size_t i = places; i < stages.size(); ++i)
    if (stages[i].tensor != stages[i % places].tensor)
      at.reject(fmt::format("stages {} and {} are chunks of one pipeline slot, but shared by {} and {} ranks",
                            i, i % places, stages[i].tensor, stages[i % places].tensor));
  return stages;
}

std::vector<Pipeline> parse_pipelines(const JsonCursor& at, const Job& job) {
  std::vector<Pipeline> pipelines;
  std::int64_t rows = 0;
  for (const JsonCursor& item : at.elements()) {
    item.only({"stages", "rows", "micro_batch"});
    Pipeline pipeline{parse_stages(item.field("stages"), job), whole(item.field("rows"), 1, job.global_batch),
                      whole(item.field("micro_batch"), 1, job.global_batch)};
    if (pipeline.rows % pipeline.micro_batch != 0)
      item.field("rows").reject(
          fmt::format("{} rows do not divide into micro-batches of {}", pipeline.rows, pipeline.micro_batch));
    rows += pipeline.rows;
    pipelines.push_back(std::move(pipeline));
  }
  if (static_cast<int>(pipelines.size()) != job.data)
    at.reject(fmt::format("{} pipelines, but job.data is {}; make them equal", pipelines.size(), job.data));
  if (rows != job.replica_rows())
    at.reject(fmt::format(
        "the pipelines take {} rows, but job.global_batch is {}{}; make them equal", rows, job.global_batch,
        job.context_parallel > 1 ? fmt::format(", each in {} pipelines", job.context_parallel) : ""));
  return pipelines;
}

void check_schedule(const JsonCursor& at, const Job& job, const std::vector<Pipeline>& pipelines) {
  for (std::size_t replica = 0; replica < pipelines.size(); ++replica) {
    const int places = static_cast<int>(pipelines[replica].stages.size()) / job.chunks;
    try {
      planner::check_schedule(job.schedule, places, pipelines[replica].micro_batches(), job.chunks);
    } catch (const Error& error) {
      at.reject(fmt::format("replica {}: {}", replica, error.what()));
    }
  }
}

std::vector<RankPlacement> parse_ranks(const JsonCursor& at, const Plan& plan) {
  std::vector<RankPlacement> ranks;
  std::map<std::tuple<int, int, int>, std::size_t> taken;
  std::map<std::pair<std::string, int>, std::size_t> devices;
  for (const JsonCursor& item : at.elements()) {
    item.only({"host", "device", "stage", "replica", "tensor"});
    RankPlacement place;
    place.host = item.field("host").text();
    if (place.host.empty()) item.field("host").reject("expected the name of a host, found an empty text");
    if (const auto device = item.optional("device")) place.device = whole(*device, 0);
    place.replica = whole(item.field("replica"), 0, plan.data_size() - 1);
    place.stage = whole(item.field("stage"), 0, plan.pipeline_size(place.replica) - 1);
    if (const auto tensor = item.optional("tensor"))
      place.tensor = whole(*tensor, 0, plan.stage(place.stage, place.replica).tensor - 1);
    const auto [other, free] = taken.try_emplace({place.stage, place.replica, place.tensor}, ranks.size());
    if (!free)
      item.reject(
          fmt::format("rank {} takes stage {}, replica {}, which rank {} has already; each slot is for one "
                      "rank",
                      ranks.size(), place.stage, place.replica, other->second));
    const auto [same, unused] = devices.try_emplace({place.host, place.device}, ranks.size());
    if (!unused)
      item.reject(
          fmt::format("rank {} runs on device {} of host {}, which rank {} has already; give it another "
                      "device",
                      ranks.size(), place.device, place.host, same->second));
    ranks.push_back(std::move(place));
  }
  std::int64_t needed = 0;
  for (int replica = 0; replica < plan.data_size(); ++replica)
    for (int place = 0; place < plan.pipeline_size(replica); ++place)
      needed += plan.stage(place, replica).tensor;
  if (static_cast<std::int64_t>(ranks.size()) != needed)
    at.reject(fmt::format("{} ranks, but the stages of all replicas need {}", ranks.size(), needed));
  return ranks;
}

Group parse_group(const JsonCursor& at, int ranks) {
  at.only({"kind", "ranks", "nic_kind"});
  Group group;
  constexpr std::array kKinds = {"data", "pipeline", "tensor", "context", "expert", "expert-data"};
  group.kind =
      kKinds[at.field("kind").choice({"data", "pipeline", "tensor", "context", "expert", "expert-data"})];
  for (const JsonCursor& rank : at.field("ranks").elements())
    group.ranks.push_back(whole(rank, 0, ranks - 1));
  const JsonCursor kind = at.field("nic_kind");
  const auto named = topology::nic_kind_from_name(kind.text());
  if (!named) kind.reject("expected infiniband, roce, iwarp or tcp, found \"" + kind.text() + "\"");
  group.nic_kind = *named;
  return group;
}

std::vector<IdleDevice> parse_left_out(const JsonCursor& at, const std::vector<RankPlacement>& ranks) {
  std::vector<IdleDevice> idle;
  for (const JsonCursor& item : at.elements()) {
    item.only({"host", "device"});
    IdleDevice one{item.field("host").text(), 0};
    if (const auto device = item.optional("device")) one.device = whole(*device, 0);
    const auto taken = std::ranges::find_if(ranks, [&](const RankPlacement& place) {
      return place.host == one.host && place.device == one.device;
    });
    if (taken != ranks.end())
      item.reject(
          fmt::format("device {} of host {} is left out, but rank {} runs on it; take one of them away",
                      one.device, one.host, taken - ranks.begin()));
    idle.push_back(std::move(one));
  }
  return idle;
}

std::uint64_t bytes_of(const JsonCursor& at) {
  return static_cast<std::uint64_t>(at.integer(0, std::numeric_limits<std::int64_t>::max()));
}

ExpectedReduction parse_reduction(const JsonCursor& at, std::size_t ranks) {
  at.only({"ranks", "algorithm", "piece_bytes", "calls", "bytes", "seconds", "why"});
  ExpectedReduction one;
  for (const JsonCursor& rank : at.field("ranks").elements())
    one.ranks.push_back(static_cast<int>(rank.integer(0, static_cast<std::int64_t>(ranks) - 1)));
  one.algorithm = at.field("algorithm").text();
  if (const auto piece = at.optional("piece_bytes")) one.piece_bytes = bytes_of(*piece);
  one.calls = whole(at.field("calls"), 1);
  one.bytes = bytes_of(at.field("bytes"));
  one.seconds = at.field("seconds").number_at_least(0);
  one.why = at.field("why").text();
  return one;
}

Prediction parse_prediction(const JsonCursor& at, std::size_t ranks) {
  at.only({"step_seconds", "tokens_per_second", "bubble_fraction", "memory", "reductions"});
  Prediction prediction;
  prediction.step_seconds = at.field("step_seconds").number_at_least(0);
  prediction.tokens_per_second = at.field("tokens_per_second").number_at_least(0);
  prediction.bubble_fraction = at.field("bubble_fraction").number_at_least(0);
  if (const auto list = at.optional("memory")) {
    for (const JsonCursor& item : list->elements()) {
      item.only({"parameters", "gradients", "optimizer", "activations", "buffers", "total"});
      prediction.memory.push_back({bytes_of(item.field("parameters")), bytes_of(item.field("gradients")),
                                   bytes_of(item.field("optimizer")), bytes_of(item.field("activations")),
                                   bytes_of(item.field("buffers")), bytes_of(item.field("total"))});
    }
    if (prediction.memory.size() != ranks)
      list->reject(
          fmt::format("{} entries for {} ranks; there is one per rank", prediction.memory.size(), ranks));
  }
  if (const auto list = at.optional("reductions"))
    for (const JsonCursor& item : list->elements())
      prediction.reductions.push_back(parse_reduction(item, ranks));
  return prediction;
}

Choice parse_choice(const JsonCursor& at) {
  at.only({"tolerance", "cases", "held", "worst", "worst_case", "next"});
  Choice choice;
  choice.tolerance = at.field("tolerance").number_at_least(0);
  if (const auto cases = at.optional("cases")) {
    choice.cases = whole(*cases, 1);
    choice.held = whole(at.field("held"), 0);
    choice.worst = at.field("worst").number_at_least(0);
    choice.worst_case = at.field("worst_case").text();
  }
  for (const JsonCursor& rival : at.field("next").elements()) {
    rival.only({"layout", "step_seconds", "why_not"});
    choice.next.push_back({rival.field("layout").text(), rival.field("step_seconds").number_at_least(0),
                           rival.field("why_not").text()});
  }
  return choice;
}

}  // namespace

Plan Plan::load(const std::string& path) {
  return parse(JsonDocument::load(path));
}

Plan Plan::parse(const JsonDocument& document) {
  const JsonCursor root = document.root();
  if (!root.is_object()) root.reject("expected an object, as docs/plan-file.md describes");
  if (const JsonCursor version = root.field("tombolo_plan"); version.integer(1, kMany) != kVersion)
    version.reject(
        fmt::format("version {} of the plan file; this build reads version {}: make the plan again with "
                    "this build's `tombolo plan`",
                    version.integer(1, kMany), kVersion));
  root.only({"tombolo_plan", "strategy", "routing", "model", "job", "stages", "pipelines", "ranks",
             "left_out", "groups", "prediction", "choice", "notes"});
  Plan plan;
  if (const auto strategy = root.optional("strategy")) plan.strategy = strategy->text();
  plan.routing = root.field("routing").choice({"per-peer", "shared"}) == 0 ? "per-peer" : "shared";
  plan.job.model = parse_model(root.field("model"));
  parse_job(root.field("job"), plan.job);
  if (const JsonCursor ranks = root.field("ranks");
      ranks.elements().size() < static_cast<std::size_t>(plan.job.data))
    ranks.reject(fmt::format("{} ranks, but job.data is {}; each replica takes at least one",
                             ranks.elements().size(), plan.job.data));
  const auto pipelines = root.optional("pipelines");
  if (pipelines && root.optional("stages"))
    pipelines->reject(
        "stands beside \"stages\"; \"stages\" alone says that all replicas are alike, \"pipelines\" "
        "what each holds");
  if (pipelines) {
    plan.pipelines = parse_pipelines(*pipelines, plan.job);
  } else {
    check_equal_shares(root.field("job"), plan.job);
    const JsonCursor stages = root.field("stages");
    if (const auto count = stages.elements().size();
        count != static_cast<std::size_t>(plan.job.pipeline) * static_cast<std::size_t>(plan.job.chunks))
      stages.reject(
          fmt::format("{} stages, but job.pipeline is {}{}; make them equal", count, plan.job.pipeline,
                      plan.job.chunks > 1 ? fmt::format(" and each has {} chunks", plan.job.chunks) : ""));
    const auto parsed = parse_stages(stages, plan.job);
    plan.pipelines = equal_pipelines(plan.job, parsed);
  }
  if (plan.job.data % plan.job.context_parallel != 0)
    root.field("job").reject(
        fmt::format("{} replicas do not divide into groups of {} that divide rows' tokens", plan.job.data,
                    plan.job.context_parallel));
  if (plan.job.context_parallel > 1 &&
      std::ranges::any_of(plan.pipelines, [&](const Pipeline& one) { return one != plan.pipelines.front(); }))
    pipelines->reject("replicas that divide rows' tokens cannot differ; make them equal");
  if (plan.job.expert_parallel > 1 &&
      std::ranges::any_of(plan.pipelines, [&](const Pipeline& one) { return one != plan.pipelines.front(); }))
    pipelines->reject("replicas that divide a layer's experts cannot differ; make them equal");
  if (plan.job.sharding > Sharding::kOptimizer &&
      std::ranges::any_of(plan.pipelines, [&](const Pipeline& one) { return one != plan.pipelines.front(); }))
    pipelines->reject(fmt::format(
        "replicas that differ cannot share {}, which they exchange in every pass; make them equal",
        sharding_name(plan.job.sharding)));
  check_schedule(root.field("job"), plan.job, plan.pipelines);
  plan.ranks = parse_ranks(root.field("ranks"), plan);
  if (const auto left_out = root.optional("left_out")) plan.left_out = parse_left_out(*left_out, plan.ranks);
  if (const auto groups = root.optional("groups"))
    for (const JsonCursor& group : groups->elements())
      plan.groups.push_back(parse_group(group, static_cast<int>(plan.ranks.size())));
  if (const auto prediction = root.optional("prediction"))
    plan.prediction = parse_prediction(*prediction, plan.ranks.size());
  if (const auto choice = root.optional("choice")) plan.choice = parse_choice(*choice);
  if (const auto notes = root.optional("notes"))
    for (const JsonCursor& note : notes->elements()) plan.notes.push_back(note.text());
  return plan;
}

}  // namespace tombolo::planner
