// The plan file; docs/plan-file.md describes it for people.
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/plan.h"

namespace tombolo::planner {

namespace {

constexpr int kMany = std::numeric_limits<int>::max();

int whole(const JsonCursor& at, int low, int high = kMany) {
  return static_cast<int>(at.integer(low, high));
}

Model parse_model_field(const JsonCursor& at) {
  at.only({"name", "layers", "hidden", "heads", "context", "vocabulary", "bytes_per_value"});
  Model model;
  if (const auto name = at.optional("name")) model.name = name->text();
  model.layers = whole(at.field("layers"), 1);
  model.hidden = whole(at.field("hidden"), 1);
  model.heads = whole(at.field("heads"), 1);
  model.context = whole(at.field("context"), 1);
  model.vocabulary = whole(at.field("vocabulary"), 1);
  if (const auto bytes = at.optional("bytes_per_value")) model.bytes_per_value = whole(*bytes, 1, 8);
  try {
    model.check();
  } catch (const Error& error) {
    at.reject(error.what());
  }
  return model;
}

void parse_job(const JsonCursor& at, Job& job) {
  at.only({"global_batch", "micro_batch", "pipeline", "data"});
  job.global_batch = whole(at.field("global_batch"), 1);
  job.micro_batch = whole(at.field("micro_batch"), 1, job.global_batch);
  job.pipeline = whole(at.field("pipeline"), 1);
  job.data = whole(at.field("data"), 1);
  if (job.global_batch % (static_cast<std::int64_t>(job.data) * job.micro_batch) != 0)
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
    item.only({"first_layer", "layers"});
    const Stage stage{whole(item.field("first_layer"), 0), whole(item.field("layers"), 1)};
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
  if (static_cast<int>(stages.size()) != job.pipeline)
    at.reject(fmt::format("{} stages, but job.pipeline is {}; make them equal", stages.size(), job.pipeline));
  if (next != job.model.layers)
    at.reject(fmt::format("the stages hold {} layers, but model.layers is {}; every layer must be on a stage",
                          next, job.model.layers));
  return stages;
}

std::vector<RankPlace> parse_ranks(const JsonCursor& at, const Job& job) {
  std::vector<RankPlace> ranks;
  std::map<std::pair<int, int>, std::size_t> taken;
  std::map<std::pair<std::string, int>, std::size_t> devices;
  for (const JsonCursor& item : at.elements()) {
    item.only({"host", "device", "stage", "replica"});
    RankPlace place;
    place.host = item.field("host").text();
    if (place.host.empty()) item.field("host").reject("expected the name of a host, found an empty text");
    if (const auto device = item.optional("device")) place.device = whole(*device, 0);
    place.stage = whole(item.field("stage"), 0, job.pipeline - 1);
    place.replica = whole(item.field("replica"), 0, job.data - 1);
    const auto [other, free] = taken.try_emplace({place.stage, place.replica}, ranks.size());
    if (!free)
      item.reject(
          fmt::format("rank {} takes stage {}, replica {}, which rank {} has already; each place is for one "
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
  const std::int64_t needed = static_cast<std::int64_t>(job.pipeline) * job.data;
  if (static_cast<std::int64_t>(ranks.size()) != needed)
    at.reject(fmt::format("{} ranks, but {} stages of {} replicas need {}", ranks.size(), job.pipeline,
                          job.data, needed));
  return ranks;
}

Group parse_group(const JsonCursor& at, int ranks) {
  at.only({"kind", "ranks", "nic_kind"});
  Group group;
  group.kind = at.field("kind").choice({"data", "pipeline"}) == 0 ? "data" : "pipeline";
  for (const JsonCursor& rank : at.field("ranks").elements())
    group.ranks.push_back(whole(rank, 0, ranks - 1));
  const JsonCursor kind = at.field("nic_kind");
  const auto named = topology::nic_kind_from_name(kind.text());
  if (!named) kind.reject("expected infiniband, roce, iwarp or tcp, found \"" + kind.text() + "\"");
  group.nic_kind = *named;
  return group;
}

std::uint64_t bytes_of(const JsonCursor& at) {
  return static_cast<std::uint64_t>(at.integer(0, std::numeric_limits<std::int64_t>::max()));
}

Prediction parse_prediction(const JsonCursor& at, std::size_t ranks) {
  at.only({"step_seconds", "tokens_per_second", "bubble_fraction", "memory"});
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
  return prediction;
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
  root.only({"tombolo_plan", "strategy", "routing", "model", "job", "stages", "ranks", "groups", "prediction",
             "notes"});
  Plan plan;
  if (const auto strategy = root.optional("strategy")) plan.strategy = strategy->text();
  plan.routing = root.field("routing").choice({"per-peer", "shared"}) == 0 ? "per-peer" : "shared";
  plan.job.model = parse_model_field(root.field("model"));
  parse_job(root.field("job"), plan.job);
  plan.stages = parse_stages(root.field("stages"), plan.job);
  plan.ranks = parse_ranks(root.field("ranks"), plan.job);
  if (const auto groups = root.optional("groups"))
    for (const JsonCursor& group : groups->elements())
      plan.groups.push_back(parse_group(group, static_cast<int>(plan.ranks.size())));
  if (const auto prediction = root.optional("prediction"))
    plan.prediction = parse_prediction(*prediction, plan.ranks.size());
  if (const auto notes = root.optional("notes"))
    for (const JsonCursor& note : notes->elements()) plan.notes.push_back(note.text());
  return plan;
}

Json Plan::to_json() const {
  Json json;
  json["tombolo_plan"] = kVersion;
  json["strategy"] = strategy;
  json["routing"] = routing;
  json["model"] = {{"name", job.model.name},
                   {"layers", job.model.layers},
                   {"hidden", job.model.hidden},
                   {"heads", job.model.heads},
                   {"context", job.model.context},
                   {"vocabulary", job.model.vocabulary},
                   {"bytes_per_value", job.model.bytes_per_value}};
  json["job"] = {{"global_batch", job.global_batch},
                 {"micro_batch", job.micro_batch},
                 {"pipeline", job.pipeline},
                 {"data", job.data}};
  json["stages"] = Json::array();
  for (const Stage& stage : stages)
    json["stages"].push_back({{"first_layer", stage.first_layer}, {"layers", stage.layers}});
  json["ranks"] = Json::array();
  for (const RankPlace& place : ranks)
    json["ranks"].push_back(
        {{"host", place.host}, {"device", place.device}, {"stage", place.stage}, {"replica", place.replica}});
  json["groups"] = Json::array();
  for (const Group& group : groups)
    json["groups"].push_back({{"kind", group.kind},
                              {"ranks", group.ranks},
                              {"nic_kind", topology::nic_kind_name(group.nic_kind)}});
  Json memory = Json::array();
  for (const RankMemory& rank : prediction.memory)
    memory.push_back({{"parameters", rank.parameters},
                      {"gradients", rank.gradients},
                      {"optimizer", rank.optimizer},
                      {"activations", rank.activations},
                      {"buffers", rank.buffers},
                      {"total", rank.total}});
  json["prediction"] = {{"step_seconds", prediction.step_seconds},
                        {"tokens_per_second", prediction.tokens_per_second},
                        {"bubble_fraction", prediction.bubble_fraction}};
  if (!prediction.memory.empty()) json["prediction"]["memory"] = std::move(memory);
  json["notes"] = notes;
  return json;
}

void Plan::save(const std::string& path) const {
  write_json_file(path, to_json());
}

}  // namespace tombolo::planner
