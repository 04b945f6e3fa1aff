#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "planner/plan/plan.h"
#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

Plan parse(const Json& json) {
  return Plan::parse(JsonDocument::parse(json.dump(1), "plan.json"));
}

Json example() {
  Plan plan = testing::simple_plan(testing::small_model(8), {"a0", "a1", "b0", "b1"}, 2, 2, 4, 2);
  plan.groups.push_back({"data", {0, 1}, topology::NicKind::kInfiniBand});
  plan.notes.push_back("because");
  plan.prediction = {1.5, 100, 0.25, std::vector<RankMemory>(4, RankMemory{1, 2, 3, 4, 5, 15})};
  return plan.to_json();
}

/// The message for a file with one thing changed.
template <typename Change>
std::string error_after(const Change& change) {
  Json json = example();
  change(json);
  try {
    parse(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(PlanFile, SurvivesARoundTrip) {
  const Json json = example();
  EXPECT_EQ(parse(json).to_json(), json);
}

TEST(PlanFile, IsWrittenAndLoaded) {
  // The process id keeps test programs that run side by side apart.
  const auto path = std::filesystem::temp_directory_path() / fmt::format("tombolo-plan-{}.json", ::getpid());
  parse(example()).save(path);
  const Plan plan = Plan::load(path);
  std::filesystem::remove(path);
  EXPECT_EQ(plan.to_json(), example());
  EXPECT_EQ(plan.rank_at(1, 0), 2);
  EXPECT_THROW(plan.rank_at(2, 0), Error);
  EXPECT_EQ(plan.micro_batches(), 4);
}

TEST(PlanFile, TheDocumentedExampleIsValid) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/plan-file.md");
  ASSERT_TRUE(file) << "docs/plan-file.md";
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const auto begin = document.find("```json\n"), end = document.find("```", begin + 8);
  ASSERT_NE(begin, std::string::npos);
  const Plan plan =
      Plan::parse(JsonDocument::parse(document.substr(begin + 8, end - begin - 8), "docs/plan-file.md"));
  EXPECT_EQ(plan.pipeline_size(), 2);
  EXPECT_EQ(plan.data_size(), 2);
  EXPECT_EQ(plan.micro_batches(), 8);
}

TEST(PlanFile, OptionalPartsMayBeLeftOut) {
  Json json = example();
  for (const char* field : {"strategy", "groups", "prediction", "notes"}) json.erase(field);
  EXPECT_EQ(parse(json).ranks.size(), 4u);
}

TEST(PlanFile, NamesFileLineAndFieldOfAMistake) {
  const std::string message = error_after([](Json& json) { json["ranks"][2]["stage"] = 7; });
  EXPECT_MENTIONS(message, "plan.json:");
  EXPECT_MENTIONS(message, "ranks[2].stage");
  EXPECT_MENTIONS(error_after([](Json& json) { json["tombolo_plan"] = 2; }), "version 2");
  EXPECT_MENTIONS(error_after([](Json& json) { json.erase("model"); }), "model");
  EXPECT_MENTIONS(error_after([](Json& json) { json["stage"] = 1; }), "stage");
  EXPECT_MENTIONS(error_after([](Json& json) { json["routing"] = "best"; }), "routing");
  EXPECT_MENTIONS(error_after([](Json& json) { json["model"]["heads"] = 5; }), "not a multiple of heads");
  EXPECT_MENTIONS(error_after([](Json& json) { json["job"]["micro_batch"] = "2"; }), "job.micro_batch");
  EXPECT_MENTIONS(error_after([](Json& json) { json["groups"][0]["nic_kind"] = "carrier pigeon"; }),
                  "carrier pigeon");
}

TEST(PlanFile, ChecksThatStagesTileTheLayers) {
  EXPECT_MENTIONS(
      error_after([](Json& json) { json["stages"][1]["first_layer"] = 5; }),
      "stages[1].first_layer: stage 1 begins at layer 5, but the stages before it end at layer 4");
  EXPECT_MENTIONS(error_after([](Json& json) { json["stages"][1]["layers"] = 3; }), "hold 7 layers");
  EXPECT_MENTIONS(error_after([](Json& json) { json["stages"][1]["layers"] = 5; }), "only 8 layers");
  EXPECT_MENTIONS(error_after([](Json& json) { json["stages"].erase(1); }),
                  "1 stages, but job.pipeline is 2");
}

TEST(PlanFile, ChecksThatEachSlotIsTakenOnce) {
  EXPECT_MENTIONS(error_after([](Json& json) { json["ranks"][1]["replica"] = 0; }),
                  "rank 1 takes stage 0, replica 0, which rank 0 has already");
  EXPECT_MENTIONS(error_after([](Json& json) { json["ranks"].erase(3); }),
                  "3 ranks, but the stages of all replicas need 4");
  EXPECT_MENTIONS(error_after([](Json& json) { json["ranks"][1]["host"] = "a0"; }), "device 0 of host a0");
}

TEST(PlanFile, ListsDevicesThatAreLeftOut) {
  Json json = example();
  json["left_out"] = {{{"host", "c0"}, {"device", 1}}};
  EXPECT_EQ(parse(json).left_out, (std::vector<IdleDevice>{{"c0", 1}}));
  EXPECT_EQ(parse(json).to_json(), json);
  EXPECT_MENTIONS(error_after([](Json& one) {
                    one["left_out"] = {{{"host", "a0"}}};
                  }),
                  "left_out[0]: device 0 of host a0 is left out, but rank 0 runs on it");
}

TEST(PlanFile, ChecksThatTheBatchDivides) {
  const std::string message = error_after([](Json& json) { json["job"]["global_batch"] = 18; });
  EXPECT_MENTIONS(message, "job.global_batch");
  EXPECT_MENTIONS(message, "take a multiple of 4");
}

Plan unequal_plan() {
  Plan plan;
  plan.strategy = "by hand";
  plan.routing = "per-peer";
  plan.job.framework = Framework::kMegatron;
  plan.job.model = {"small", 8, 128, 4, 128, 256, 2};
  plan.job.global_batch = 12;
  plan.job.micro_batch = 2;
  plan.job.pipeline = 2;
  plan.job.data = 2;
  plan.job.tensor = 2;
  plan.job.recompute = Recompute::kSelective;
  plan.job.sharding = Sharding::kOptimizer;
  plan.job.overlap_gradients = false;
  plan.pipelines = {{{{0, 3, 2}, {3, 5, 2}}, 8, 2}, {{{0, 8, 1}}, 4, 1}};
  plan.ranks = {
      {"a", 0, 0, 0, 0}, {"a", 1, 0, 0, 1}, {"a", 2, 1, 0, 0}, {"a", 3, 1, 0, 1}, {"b", 0, 0, 1, 0}};
  return plan;
}

TEST(PlanFile, ReplicasMayDifferInStagesTensorDegreeRowsAndMicroBatch) {
  const Plan plan = unequal_plan();
  const Plan back = Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan.json"));
  EXPECT_EQ(back.pipelines, plan.pipelines);
  EXPECT_EQ(back.to_json(), plan.to_json());
  EXPECT_FALSE(back.uniform());
  EXPECT_EQ(back.pipeline_size(1), 1);
  EXPECT_EQ(back.rank_at(1, 0, 1), 3);
  EXPECT_EQ(back.job.recompute, Recompute::kSelective);
  EXPECT_EQ(back.job.sharding, Sharding::kOptimizer);
  EXPECT_FALSE(back.job.overlap_gradients);
}

TEST(PlanFile, ReadsHowEarlierVersionsSaidThatTheOptimizerIsSharded) {
  Json json = unequal_plan().to_json();
  json["job"].erase("sharding");
  json["job"]["shard_optimizer"] = true;
  EXPECT_EQ(Plan::parse(JsonDocument::parse(json.dump(), "plan.json")).job.sharding, Sharding::kOptimizer);
  json["job"]["sharding"] = "optimizer";
  EXPECT_THROW(Plan::parse(JsonDocument::parse(json.dump(), "plan.json")), Error);
}

TEST(PlanFile, CountsLayersThatAreComputedAgainOnlyWhereWholeOnesAre) {
  Json json = example();
  json["job"]["framework"] = "megatron";
  json["job"]["recompute"] = "full";
  json["job"]["recompute_layers"] = 3;
  const Plan plan = parse(json);
  EXPECT_EQ(plan.job.recompute_layers, 3);
  EXPECT_EQ(plan.to_json().at("job").at("recompute_layers"), 3);
  for (const int layers : {0, -1, 9}) {
    json["job"]["recompute_layers"] = layers;
    EXPECT_THROW(parse(json), Error) << layers;
  }
  EXPECT_NE(error_after([](Json& file) {
              file["job"]["framework"] = "megatron";
              file["job"]["recompute_layers"] = 3;
            }).find("only whole layers"),
            std::string::npos);
  EXPECT_NE(error_after([](Json& file) {
              file["job"]["framework"] = "megatron";
              file["job"]["recompute"] = "full";
              file["job"]["recompute_layers"] = 3;
              file["job"]["context_parallel"] = 2;
            }).find("not modelled"),
            std::string::npos);
}

TEST(PlanFile, ReadsHowEarlierVersionsSaidThatSendsBlock) {
  Json json = example();
  json["job"]["framework"] = "megatron";
  json["job"]["blocking_sends"] = true;
  EXPECT_EQ(parse(json).job.sends, StageSends::kInTurn);
  json["job"]["sends"] = "together";
  EXPECT_THROW(parse(json), Error);
  json["job"].erase("blocking_sends");
  EXPECT_EQ(parse(json).job.sends, StageSends::kTogether);
  EXPECT_NE(error_after([](Json& file) {
              file["job"]["framework"] = "megatron";
              file["job"]["sends"] = "together";
              file["job"]["schedule"] = "interleaved";
              file["job"]["chunks"] = 2;
            }).find("sends beside computing"),
            std::string::npos);
}

/// Four replicas on hosts of their own, of which two each divide the experts.
Plan plan_with_experts() {
  Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "a1", "a2", "a3"}, 1, 4, 2);
  plan.job.framework = Framework::kMegatron;
  Model& model = plan.job.model;
  model.biases = false;
  model.head_width = 32;
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_feed_forward = 48;
  model.shared_feed_forward = 96;
  model.moe_every = 2;
  model.dense_first = 1;
  plan.job.expert_parallel = 2;
  return plan;
}

TEST(PlanFile, KeepsExpertsAndWhoDividesThem) {
  Plan plan = plan_with_experts();
  plan.groups = {{"expert", {0, 1}}, {"expert-data", {0, 2}}};
  const Plan back = Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan.json"));
  EXPECT_EQ(back.job.model, plan.job.model);
  EXPECT_EQ(back.job.expert_parallel, 2);
  ASSERT_EQ(back.groups.size(), 2u);
  EXPECT_EQ(back.groups[0].kind, "expert");
  EXPECT_EQ(back.groups[1].kind, "expert-data");
}

TEST(PlanFile, SaysWhyReplicasCannotDivideExperts) {
  const auto refused = [](auto change) -> std::string {
    Json json = plan_with_experts().to_json();
    change(json);
    try {
      (void)Plan::parse(JsonDocument::parse(json.dump(), "plan.json"));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto expect = [&](std::string_view part, auto change) {
    const std::string why = refused(change);
    EXPECT_NE(why.find(part), std::string::npos) << why;
  };
  expect("accepted", [](Json&) {});
  expect("8 experts do not divide among 3 replicas", [](Json& json) { json["job"]["expert_parallel"] = 3; });
  expect("4 replicas do not divide into groups of 8", [](Json& json) { json["job"]["expert_parallel"] = 8; });
  expect("the model has none", [](Json& json) {
    for (const char* field : {"experts", "experts_per_token", "expert_feed_forward", "shared_feed_forward",
                              "moe_every", "dense_first"})
      json["model"].erase(field);
  });
  expect("experts_per_token is 9", [](Json& json) { json["model"]["experts_per_token"] = 9; });
  expect("the bundled trainer has no mixtures of experts", [](Json& json) {
    json["job"].erase("expert_parallel");
    json["job"].erase("framework");
  });
  expect("cannot differ", [](Json& json) {
    const Json stages = json["stages"];
    json.erase("stages");
    for (const int rows : {1, 3, 2, 2})
      json["pipelines"].push_back({{"stages", stages}, {"rows", rows}, {"micro_batch", 1}});
  });
}

TEST(PlanFile, RefusesReplicasThatDifferAndShareGradients) {
  Json json = unequal_plan().to_json();
  json["job"]["sharding"] = "gradients";
  try {
    (void)Plan::parse(JsonDocument::parse(json.dump(), "plan.json"));
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot share gradients"), std::string::npos) << error.what();
  }
}

TEST(PlanFile, ChecksPipelinesThatDiffer) {
  const auto error_of = [](auto change) -> std::string {
    Json json = unequal_plan().to_json();
    change(json);
    try {
      Plan::parse(JsonDocument::parse(json.dump(1), "plan.json"));
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(error_of([](Json& json) { json["pipelines"][1]["rows"] = 3; }),
         "take 11 rows, but job.global_batch is 12");
  expect(error_of([](Json& json) { json["pipelines"][0]["micro_batch"] = 3; }),
         "do not divide into micro-batches of 3");
  expect(error_of([](Json& json) { json["pipelines"].erase(1); }), "1 pipelines, but job.data is 2");
  expect(error_of([](Json& json) { json["ranks"].erase(4); }),
         "4 ranks, but the stages of all replicas need 5");
  expect(error_of([](Json& json) { json["ranks"][4]["replica"] = 0; }), "which rank 0 has already");
  expect(error_of([](Json& json) { json["stages"] = json["pipelines"][0]["stages"]; }), "stands beside");
  expect(error_of([](Json& json) { json["job"]["schedule"] = "2f2b"; }), "expected gpipe, 1f1b");
  expect(error_of([](Json& json) { json["job"]["framework"] = "tombolo"; }), "has no tensor parallelism");
  expect(error_of([](Json& json) { json["job"]["data"] = 2000000000; }), "each replica takes at least one");
}

TEST(PlanFile, ModelChunksAreVirtualStages) {
  Plan plan = unequal_plan();
  plan.job.schedule = Schedule::kInterleaved;
  plan.job.chunks = 2;
  plan.job.data = 1;
  plan.job.tensor = 1;
  plan.job.global_batch = 8;
  plan.pipelines = equal_pipelines(plan.job, {{0, 2}, {2, 2}, {4, 2}, {6, 2}});
  plan.ranks = {{"a", 0, 0, 0, 0}, {"a", 1, 1, 0, 0}};
  const Plan back = Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan.json"));
  EXPECT_EQ(back.pipeline_size(), 2);
  EXPECT_EQ(back.layers_at(1), 4);
  plan.job.global_batch = 6;
  plan.pipelines = equal_pipelines(plan.job, plan.stages());
  EXPECT_THROW(Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan.json")), Error)
      << "3 micro-batches cannot be interleaved over 2 stages";
}

TEST(PlanFile, ReadsReplicasThatDivideRows) {
  Plan plan = testing::simple_plan(testing::small_model(4), {"a0", "a1", "a2", "a3"}, 1, 4, 2);
  plan.job.framework = Framework::kMegatron;
  plan.job.context_parallel = 2;
  plan.job.context_exchange = ContextExchange::kAllToAll;
  plan.job.global_batch = 4;
  Json json = plan.to_json();
  const Plan back = Plan::parse(JsonDocument::parse(json.dump(), "plan.json"));
  EXPECT_EQ(back.pipelines, plan.pipelines) << "two groups of two, each with two of the four rows";
  EXPECT_EQ(back.job.context_exchange, ContextExchange::kAllToAll);
  const auto refused = [&](const char* field, int value, const char* part) {
    Json other = json;
    other["job"][field] = value;
    try {
      (void)Plan::parse(JsonDocument::parse(other.dump(), "plan.json"));
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused("context_parallel", 3, "cannot divide rows of 32 tokens");
  refused("context_parallel", 8, "do not divide among 8 ranks");
  refused("data", 1, "1 replicas do not divide into groups of 2");
}

}  // namespace
}  // namespace tombolo::planner
