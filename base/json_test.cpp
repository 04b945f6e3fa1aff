#include "base/json.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <nlohmann/json.hpp>

#include "base/sanitizer.h"
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

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// 90 KB in the shapes that make any per-value copy of the names above it large.
std::vector<std::string> inputs_with_long_names() {
  const std::string name(45'000, 'n');
  std::string deep = "1";
  for (int depth = 0; depth < 30; ++depth)
    deep = fmt::format("{{\"{}\": [{}]}}", name.substr(0, 3'000), deep);
  const std::string many = repeated("1,", 22'000) + "1";
  return {fmt::format("{{\"{}\": [{}]}}", name, many),
          fmt::format("{{\"{}\": [{}{{}}]}}", name, repeated("{},", 15'000)),
          fmt::format("{{\"{}\": {{{}\"z\": 1}}}}", name,
                      [] {
                        std::string members;
                        for (int i = 0; i < 5'000; ++i) members += fmt::format("\"{}\":1,", i);
                        return members;
                      }()),
          deep};
}

/// Bytes of the heap in use.
std::size_t bytes_held() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Json, TakesMemoryInProportionToTheText) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not count";
  for (const std::string& text : inputs_with_long_names()) {
    const std::size_t before = bytes_held();
    const JsonDocument document = JsonDocument::parse(text, "x.json");
    const JsonCursor outer = document.root().members().at(0).second;
    const std::size_t parsed = bytes_held();
    EXPECT_LT(parsed - before, 100 * text.size());
    if (outer.is_array()) {
      const auto elements = outer.elements();
      EXPECT_LT(bytes_held() - parsed, 100 * text.size()) << elements.size();
    } else {
      const auto members = outer.members();
      EXPECT_LT(bytes_held() - parsed, 100 * text.size()) << members.size();
    }
  }
}

TEST(Json, KnowsTheLineOfEveryValueWhereverItWasMoved) {
  std::string text = "[";
  for (int i = 0; i < 1'000; ++i) text += fmt::format("{}{{\n\"a\": [{},\n{}]}}", i > 0 ? "," : "", i, i);
  const auto all = parse(text + "]").elements();
  for (int i = 0; i < 1'000; ++i) {
    const JsonCursor a = all.at(static_cast<std::size_t>(i)).field("a");
    EXPECT_EQ(a.line(), 2 + 2 * i);
    EXPECT_EQ(a.elements().at(1).line(), 3 + 2 * i);
    EXPECT_EQ(a.elements().at(1).path(), fmt::format("[{}].a[1]", i));
  }
}

TEST(Json, RefusesLargeTextsWithAShortMessage) {
  constexpr std::size_t kLarge = 100'000'000;
  EXPECT_EQ(error_of([] { parse(std::string(kLarge, '[')); }), "x.json:1: nested more than 64 deep");
  EXPECT_LT(error_of([] { parse("\"" + std::string(kLarge / 20, 'a')); }).size(), 300U);
  EXPECT_LT(error_of([] { parse("{\"" + std::string(100'000, 'a') + "\": x"); }).size(), 300U);
  const std::string name(100'000, 'a');
  EXPECT_LT(error_of([&] { parse("{\"" + name + "\": 1, \"" + name + "\": 2}"); }).size(), 300U);
  const auto root = parse("{\"" + name + "\": 1}");
  EXPECT_LT(error_of([&] { root.members().at(0).second.text(); }).size(), 300U);
}

TEST(PeerJson, IsRefusedAsTheirFaultWhereItIsNotAsItShouldBe) {
  EXPECT_EQ(parse_peer_json("[1, {\"a\": null}]", "rank 3's report").at(0), 1);
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[1] 2"), std::string("\xff"),
        std::string("{\"a\":1,\"a\":2}"), std::string(1'000'000, '['), repeated("{\"a\":", 100'000)}) {
    try {
      parse_peer_json(text, "rank 3's report");
      ADD_FAILURE() << text.substr(0, 20) << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      EXPECT_EQ(std::string_view(error.what()).substr(0, 16), "rank 3's report:") << error.what();
    }
  }
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
