#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "base/text_distance.h"

namespace tombolo {
namespace {

JsonCursor parse(std::string_view text) {
  return JsonDocument::parse(text, "x.json").root();
}

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Json, NamesFileLineAndFieldOfAWrongValue) {
  auto root = parse("{\n \"hosts\": [\n  {},\n  {\"nics\": [\n   {\"rate\":\n     \"fast\"}]}]\n}");
  auto rate = root.field("hosts").elements().at(1).field("nics").elements().at(0).field("rate");
  EXPECT_EQ(error_of([&] { rate.positive_number(); }),
            "x.json:6: hosts[1].nics[0].rate: expected a number > 0, found \"fast\"");
}

TEST(Json, KnowsTheLineOfANumberThatANewlineEnds) {
  auto root = parse("[1,\n2\n,\n3\n]\n");
  auto all = root.elements();
  EXPECT_EQ(root.line(), 1);
  EXPECT_EQ(all.at(0).line(), 1);
  EXPECT_EQ(all.at(1).line(), 2);
  EXPECT_EQ(all.at(2).line(), 4);
  EXPECT_EQ(parse("7\n").line(), 1);
  EXPECT_EQ(parse("\n\n7").line(), 3);
}

TEST(Json, NamesLineAndColumnOfMalformedText) {
  EXPECT_EQ(error_of([] { parse("{\n  \"a\": 1,\n  oops\n}"); }).substr(0, 36),
            "x.json:3: column 3: malformed JSON: ");
  EXPECT_NE(error_of([] { parse(""); }).find("x.json:1: "), std::string::npos);
  EXPECT_NE(error_of([] { parse("[1,\n1e999]"); }).find("x.json:2: "), std::string::npos);
  EXPECT_NE(error_of([] { parse("[1] 2"); }).find("malformed"), std::string::npos);
  EXPECT_NE(error_of([] { parse("[\"\xff\"]"); }).find("malformed"), std::string::npos);
}

TEST(Json, RejectsAFieldGivenTwice) {
  EXPECT_EQ(error_of([] { parse("{\"a\": 1,\n\"a\": 2}"); }),
            "x.json:2: the field \"a\" is given twice in one object");
}

TEST(Json, RejectsDeepNestingInsteadOfExhaustingTheStack) {
  EXPECT_NE(error_of([] { parse(std::string(100000, '[')); }).find("nested"), std::string::npos);
}

TEST(Json, SuggestsTheNearestKnownField) {
  auto root = parse("{\"name\": 1,\n \"rate_gpbs\": 2}");
  EXPECT_EQ(error_of([&] {
              root.only({"name", "rate_gbps", "mtu"});
            }),
            "x.json:2: rate_gpbs: unknown field; did you mean \"rate_gbps\"?");
  EXPECT_EQ(error_of([] {
              parse("{\"quux\": 1}").only({"name", "mtu"});
            }),
            "x.json:1: quux: unknown field; known here: name, mtu");
  EXPECT_NO_THROW(root.only({"name", "rate_gpbs"}));
}

TEST(Json, TellsAMissingFieldFromOneThatIsNull) {
  auto root = parse("{\"a\": null}");
  EXPECT_FALSE(root.optional("a").has_value());
  EXPECT_FALSE(root.optional("b").has_value());
  EXPECT_EQ(error_of([&] { root.field("b"); }), "x.json:1: the field \"b\" is missing");
}

TEST(Json, ChecksTypesAndRanges) {
  auto root =
      parse(R"({"t": "x", "n": 2.5, "i": 7, "e": 1e3, "big": 18446744073709551615, "b": true, "o": {}})");
  EXPECT_EQ(root.field("t").text(), "x");
  EXPECT_TRUE(root.field("b").boolean());
  EXPECT_DOUBLE_EQ(root.field("n").number(), 2.5);
  EXPECT_EQ(root.field("i").integer(0, 7), 7);
  EXPECT_EQ(root.field("e").integer(0, 1000), 1000);
  EXPECT_NE(error_of([&] { root.field("n").integer(0, 9); }).find("an integer from 0 to 9, found 2.5"),
            std::string::npos);
  EXPECT_NE(error_of([&] { root.field("big").integer(0, INT64_MAX); }).find("found 18446744073709551615"),
            std::string::npos);
  EXPECT_NE(error_of([&] { root.field("i").integer(8, 9); }).find("from 8 to 9"), std::string::npos);
  EXPECT_NE(error_of([&] { root.field("t").number(); }).find("expected a number, found \"x\""),
            std::string::npos);
  EXPECT_NE(error_of([&] { root.field("i").number_at_least(7.5); }).find(">= 7.5"), std::string::npos);
  EXPECT_NE(error_of([&] { root.field("o").text(); }).find("expected text, found an object"),
            std::string::npos);
  EXPECT_NE(error_of([&] { root.elements(); }).find("expected an array, found an object"), std::string::npos);
  EXPECT_NE(error_of([&] { root.field("t").field("x"); }).find("expected an object"), std::string::npos);
  EXPECT_EQ(root.field("t").choice({"w", "x"}), 1U);
  EXPECT_NE(error_of([&] {
              root.field("t").choice({"up", "down"});
            }).find("one of \"up\", \"down\""),
            std::string::npos);
}

TEST(Json, KeepsTheOrderOfTheFile) {
  auto root = parse(R"({"z": 1, "a": 2, "m/~": 3})");
  std::string names;
  for (const auto& [name, value] : root.members()) names += fmt::format("{}={} ", name, value.number());
  EXPECT_EQ(names, "z=1 a=2 m/~=3 ");
}

TEST(Json, OutlivesTheDocumentItCameFrom) {
  std::optional<JsonCursor> kept;
  {
    auto document = JsonDocument::parse("{\"a\": [1, 2]}", "x.json");
    kept = document.root().field("a");
  }
  EXPECT_EQ(kept->elements().size(), 2U);
}

TEST(Json, NamesTheFileThatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_NE(
      error_of([&] { JsonDocument::load(folder.file("none.json")); }).find("none.json: cannot open: No such"),
      std::string::npos);
  EXPECT_NE(error_of([&] { JsonDocument::load(folder.path().string()); }).find("cannot read: Is a directory"),
            std::string::npos);
}

TEST(TextDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(text_distance("", ""), 0U);
  EXPECT_EQ(text_distance("abc", ""), 3U);
  EXPECT_EQ(text_distance("abc", "acb"), 1U);
  EXPECT_EQ(text_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace tombolo
