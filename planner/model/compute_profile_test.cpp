#include "planner/model/compute_profile.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/model/framework.h"
#include "topology/files/library.h"

namespace tombolo::planner {
namespace {

std::string error_of(const std::string& text) {
  try {
    (void)ComputeLibrary::parse(JsonDocument::parse(text, "compute.json"));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(ComputeLibrary, NamesDevicesThatTheLibraryHasAndSaysWhereItsConstantsAreFrom) {
  const topology::Library devices = topology::Library::load();
  const ComputeLibrary library = ComputeLibrary::load();
  EXPECT_GE(library.records.size(), 4U);
  for (const ComputeLibrary::Record& record : library.records) {
    if (record.device != ComputeLibrary::kAnyGpu) {
      const auto found = devices.device_names.find(record.device);
      ASSERT_TRUE(found) << record.device;
      EXPECT_EQ(devices.devices[*found].name, record.device);
    }
    EXPECT_FALSE(record.software.empty());
    const std::string& source = record.profile.source;
    EXPECT_TRUE(source.starts_with("fitted: ") || source.starts_with("estimate: ")) << source;
  }
}

TEST(ComputeLibrary, SharesOfTheAttainedRateAreTheFittedSharesOfThePeak) {
  const topology::Library devices = topology::Library::load();
  const ComputeLibrary library = ComputeLibrary::load();
  for (const auto& [device, software, share] :
       {std::tuple{"A100-SXM4-80GB", "megatron", 0.80}, {"H100-SXM5-80GB", "nanotron", 0.517}}) {
    const auto record = library.of(software);
    const ComputeProfile* profile = record->find(device);
    ASSERT_NE(profile, nullptr);
    EXPECT_NEAR(profile->products * devices.devices[*devices.device_names.find(device)].attained_share, share,
                0.001);
  }
}

TEST(ComputeLibrary, EveryFrameworkButTheBundledTrainerHasARecordForAnyGpu) {
  const ComputeLibrary library = ComputeLibrary::load();
  for (const Framework one :
       {Framework::kMegatron, Framework::kDeepSpeed, Framework::kTorchTitan, Framework::kNeMo}) {
    const auto profiles = library.of(framework_name(one));
    ASSERT_NE(profiles, nullptr) << framework_name(one);
    EXPECT_NE(profiles->find("a GPU of next year"), nullptr);
  }
  EXPECT_EQ(library.of("tombolo"), nullptr);
  EXPECT_EQ(library.of("nanotron")->find("A100-SXM4-80GB"), nullptr) << "it was measured on H100 alone";
}

TEST(ComputeLibrary, IsAskedForASoftwareThatWasMeasured) {
  EXPECT_EQ(library_profiles("tombolo"), nullptr);
  EXPECT_NE(library_profiles("megatron")->find("A100-SXM4-80GB"), nullptr);
  EXPECT_TRUE(library_profiles("megatron", "nanotron")->memory);
  try {
    library_profiles("megatron", "nanotrons");
    FAIL() << "nobody measured it";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("\"nanotrons\""), std::string::npos) << what;
    EXPECT_NE(what.find("megatron, nanotron, nemo"), std::string::npos) << what;
  }
}

TEST(ComputeLibrary, NamesWhatIsWrong) {
  EXPECT_NE(
      error_of(R"({"tombolo_library": 1, "records": [{"device": "A", "software": ["x"]}]})").find("source"),
      std::string::npos);
  const std::string twice = error_of(
      "{\"tombolo_library\": 1, \"records\": [\n{\"device\": \"A\", \"software\": [\"x\"], \"source\": "
      "\"s\"},\n"
      "{\"device\": \"A\", \"software\": [\"y\", \"x\"], \"source\": \"s\"}]}");
  EXPECT_NE(twice.find("compute.json:3: records[1].software[1]: x on A has a record already"),
            std::string::npos)
      << twice;
  EXPECT_NE(error_of(R"({"tombolo_library": 1, "records": [{"device": "A", "software": ["x"],
                        "products": 0, "source": "s"}]})")
                .find("products"),
            std::string::npos);
}

TEST(ComputeLibrary, KnowsWhatNanotronHolds) {
  const auto nanotron = ComputeLibrary::load().of("nanotron");
  ASSERT_TRUE(nanotron->memory);
  EXPECT_TRUE(nanotron->memory->source.starts_with("fitted: "));
  EXPECT_GT(nanotron->memory->deferred_alone, nanotron->memory->deferred_staged);
  EXPECT_FALSE(ComputeLibrary::load().of("megatron")->memory) << "its tensors are counted";
}

TEST(ComputeLibrary, NamesWhatIsWrongWithMemory) {
  const auto with = [](const std::string& more) {
    const std::string one = R"({"software": ["x"], "gradient_bytes": 2, "kept_hidden": 14, "kept_inner": 4,
                                "logit_bytes": 12, "bytes": 0, "source": "fitted: y"})";
    return error_of(R"({"tombolo_library": 1, "records": [], "memory": [)" + one + more + "]}");
  };
  EXPECT_EQ(with(""), "");
  const std::string twice = with(R"(, {"software": ["x"], "gradient_bytes": 2, "kept_hidden": 14,
                                       "kept_inner": 4, "logit_bytes": 12, "bytes": 0, "source": "fitted: y"})");
  EXPECT_NE(twice.find("the memory of x has a record already"), std::string::npos) << twice;
  const std::string few = with(R"(, {"software": ["y"], "gradient_bytes": 2, "kept_hidden": 7,
                                     "kept_inner": 4, "logit_bytes": 12, "bytes": 0, "source": "fitted: y"})");
  EXPECT_NE(few.find("kept_hidden"), std::string::npos) << few;
  const std::string up_to = with(R"(, {"software": ["y"], "gradient_bytes": 2, "kept_hidden": 14,
       "kept_inner": 4, "logit_bytes": 12, "bytes": 0, "deferred_staged": 3, "source": "fitted: y"})");
  EXPECT_NE(up_to.find("deferred_tensor"), std::string::npos) << up_to;
}

}  // namespace
}  // namespace tombolo::planner
