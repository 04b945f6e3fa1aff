#include "planner/model/model_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/model/model_json.h"

namespace tombolo::planner {
namespace {

TEST(ModelLibrary, CountsTheParametersThatWerePublished) {
  const ModelLibrary library = ModelLibrary::load();
  EXPECT_GE(library.models.size(), 45U);
  for (const LibraryModel& entry : library.models) {
    const double counted = static_cast<double>(entry.model.parameters());
    EXPECT_LE(std::abs(counted / entry.parameters - 1), 0.03)
        << entry.model.name << " has " << counted << ", published are " << entry.parameters;
    if (entry.model.experts > 0) {
      const double active = static_cast<double>(entry.model.active_parameters());
      EXPECT_LE(std::abs(active / entry.active_parameters - 1), 0.03)
          << entry.model.name << " has " << active << ", published are " << entry.active_parameters;
    }
    EXPECT_GE(entry.at.field("source").text().size(), 10U) << entry.model.name;
  }
}

TEST(ModelLibrary, CountsReleasedWeightsExactly) {
  const ModelLibrary library = ModelLibrary::load();
  for (const auto& [name, parameters] :
       {std::pair{"gpt2", 124439808ULL},    {"gpt2-xl", 1557611200ULL},
        {"llama2-7b", 6738415616ULL},       {"llama2-70b", 68976648192ULL},
        {"llama3-8b", 8030261248ULL},       {"gpt-neo-1.3b", 1315575808ULL},
        {"gpt-j-6b", 6050882784ULL},        {"gpt-neox-20b", 20554567680ULL},
        {"pythia-1b", 1011781632ULL},       {"bloom-560m", 559214592ULL},
        {"falcon-7b", 6921720704ULL},       {"mpt-7b", 6649286656ULL},
        {"phi-2", 2779683840ULL},           {"gemma-2b", 2506172416ULL},
        {"mistral-7b", 7241732096ULL},      {"mixtral-8x7b", 46702792704ULL},
        {"mixtral-8x22b", 140620634112ULL}, {"deepseek-moe-16b", 16375728128ULL},
        {"deepseek-v2", 235741434880ULL},   {"deepseek-v3", 671026404352ULL},
        {"llama3.2-1b", 1235814400ULL},     {"qwen2.5-0.5b", 494032768ULL},
        {"qwen2.5-7b", 7615616512ULL},      {"qwen2.5-72b", 72706203648ULL},
        {"qwen3-30b-a3b", 30532122624ULL},  {"qwen3-235b-a22b", 235093634560ULL}})
    EXPECT_EQ(library.find(name).model.parameters(), parameters) << name;
}

TEST(ModelLibrary, HasDeepSeekV3AsItsPaperSays) {
  const Model model = ModelLibrary::load().find("deepseek-v3").model;
  EXPECT_NEAR(static_cast<double>(model.parameters()), 671e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(model.active_parameters()), 37e9, 0.6e9);
  EXPECT_EQ(model.mixtures(0, model.layers), 58);
  EXPECT_EQ(model.mlp_of(2), Mlp::kDense);
  EXPECT_EQ(model.mlp_of(3), Mlp::kMixture);
}

TEST(ModelLibrary, ResolvesWhatPeopleWrite) {
  const Model named = resolve_model("GPT3 7.5B");
  EXPECT_EQ(named.name, "gpt3-7.5b");
  EXPECT_EQ(named.layers, 36);
  EXPECT_EQ(named.hidden, 4096);
  const Model changed = resolve_model("llama3-8b,context=4096,bytes=4");
  EXPECT_EQ(changed.context, 4096);
  EXPECT_EQ(changed.bytes_per_value, 4);
  EXPECT_EQ(changed.kv_heads, 8);
  EXPECT_EQ(changed.name, "llama3-8b");
  EXPECT_EQ(resolve_model("layers=8,hidden=128").hidden, 128);
  EXPECT_EQ(resolve_model("").layers, 0);
  // A router's groups stay where they divide the experts that the text says.
  const Router router = resolve_model("deepseek-v2").router;
  EXPECT_EQ(router.groups_per_token, 3);
  EXPECT_EQ(resolve_model("deepseek-v2,experts_per_token=3,layers=4").router, router);
  for (const char* text : {"deepseek-v2,experts_per_token=4", "deepseek-v2,experts=60"}) {
    const Model other = resolve_model(text);
    EXPECT_NO_THROW(other.check()) << text;
    EXPECT_EQ(other.router.groups, 0) << text;
    EXPECT_EQ(other.router.scale, router.scale) << text;
  }

  const auto path = std::filesystem::temp_directory_path() / fmt::format("tombolo-shape-{}.json", ::getpid());
  write_json_file(path.string(), to_json(changed));
  EXPECT_EQ(resolve_model(path.string()), changed);
  EXPECT_EQ(resolve_model(path.string() + ",layers=3").layers, 3);
  std::filesystem::remove(path);
}

void expect_model_error(const std::string& text, std::string_view part) {
  try {
    resolve_model(text);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ModelLibrary, SaysWhatIsWrong) {
  expect_model_error("gtp3-7.5b", "no model \"gtp3-7.5b\"; did you mean \"gpt3-7.5b\"?");
  expect_model_error("llama3-8b,contxt=1", "unknown field \"contxt\"");
  expect_model_error("missing.json", "missing.json: cannot open");
  const auto parse = [](const char* text) {
    return ModelLibrary::parse(JsonDocument::parse(text, "m.json"));
  };
  constexpr const char* kTwo = R"({"tombolo_library": 1, "models": [
   {"name": "a", "parameters": 1, "source": "s",
    "shape": {"layers": 1, "hidden": 4, "heads": 2, "context": 8, "vocabulary": 9}},
   {"name": "A", "parameters": 1, "source": "s",
    "shape": {"layers": 1, "hidden": 4, "heads": 3, "context": 8, "vocabulary": 9}}]})";
  try {
    parse(kTwo);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("m.json:5: models[1].shape: model: hidden 4 is not a multiple"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tombolo::planner
