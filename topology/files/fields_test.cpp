#include "topology/files/fields.h"

#include <gtest/gtest.h>

#include <set>

namespace tombolo::topology {
namespace {

/// A cursor at the value of "x" in a document of one line.
JsonCursor value_of_x(const std::string& json) {
  return JsonDocument::parse("{\"x\": " + json + "}", "f.json").root().field("x");
}

/// What a reader says of a value that it rejects; empty where it takes it.
template <typename Read>
std::string refusal(const Read& read, const std::string& json) {
  try {
    read(value_of_x(json));
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
}

TEST(Fields, NamesHaveNoBlanksAndNoSlashUnlessItIsAllowed) {
  const auto plain = [](const JsonCursor& at) { return name_of(at, false); };
  const auto slashed = [](const JsonCursor& at) { return name_of(at, true); };
  EXPECT_EQ(name_of(value_of_x("\"mlx5_0/1\""), true), "mlx5_0/1");
  EXPECT_EQ(refusal(plain, "\"Grünkohl\""), "");
  for (const char* bad : {"\"\"", "\"a b\"", "\"a\\u007f\"", "\"a\\n\""}) {
    EXPECT_NE(refusal(plain, bad), "") << bad;
    EXPECT_NE(refusal(slashed, bad), "") << bad;
  }
  EXPECT_NE(refusal(plain, "\"a/b\"").find("f.json:1: x: expected a name without blanks and without '/'"),
            std::string::npos);
  EXPECT_EQ(refusal(plain, "\"" + std::string(255, 'n') + "\""), "");
  EXPECT_NE(refusal(plain, "\"" + std::string(256, 'n') + "\""), "");
}

TEST(Fields, RatesAreBoundedAndRounded) {
  EXPECT_EQ(rate_of(value_of_x("2.5")), 2'500'000'000U);
  EXPECT_EQ(rate_of(value_of_x("1e-9")), 1U);
  EXPECT_EQ(rate_of(value_of_x("1e6")), 1'000'000'000'000'000U);
  for (const char* bad : {"0", "-1", "1000001", "\"fast\""}) EXPECT_NE(refusal(rate_of, bad), "") << bad;
}

TEST(Fields, QuantitiesArePositiveAndNotAbsurd) {
  EXPECT_EQ(refusal(bandwidth_of, "1.25e14"), "");
  EXPECT_NE(refusal(bandwidth_of, "1.26e14").find("bytes per second"), std::string::npos);
  EXPECT_EQ(refusal(flops_of, "1e18"), "");
  EXPECT_NE(refusal(flops_of, "1.1e18").find("FLOP/s"), std::string::npos);
  EXPECT_NE(refusal(memory_of, "1.1e15"), "");
  EXPECT_NE(refusal(memory_speed_of, "0"), "");
}

TEST(Fields, LatencyMayBeZeroAndAtMostAnHour) {
  EXPECT_EQ(latency_of(value_of_x("0")), 0);
  EXPECT_EQ(latency_of(value_of_x("3600")), 3600);
  EXPECT_NE(refusal(latency_of, "-0.1"), "");
  EXPECT_NE(refusal(latency_of, "3601"), "");
}

TEST(Fields, KindsAreThoseOfNics) {
  for (const NicKind kind : {NicKind::kInfiniBand, NicKind::kRoce, NicKind::kIwarp, NicKind::kTcp})
    EXPECT_EQ(kind_of(value_of_x("\"" + std::string(nic_kind_name(kind)) + "\"")), kind);
  EXPECT_NE(refusal(kind_of, "\"ethernet\"").find("infiniband"), std::string::npos);
}

TEST(Suggestion, IsTheNearestNameOrThoseThatAreKnown) {
  const std::set<std::string> names{"alpha", "beta"};
  EXPECT_EQ(suggestion("alpah", views(names)), "; did you mean \"alpha\"?");
  EXPECT_EQ(suggestion("something else", views(names)), "; known: alpha, beta");
  EXPECT_EQ(suggestion("x", {"", ""}), "; none has a name");
  std::vector<std::string_view> many(20, "name");
  EXPECT_EQ(suggestion("something else", many).substr(0, 20), "; known: name, name,");
  EXPECT_TRUE(suggestion("something else", many).ends_with(", ..."));
}

}  // namespace
}  // namespace tombolo::topology
