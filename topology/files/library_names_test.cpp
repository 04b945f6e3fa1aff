// Names of the library's entries, and where its files are. What a whole file refuses: library_test.cpp.
#include "topology/files/library_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"

namespace tombolo::topology {
namespace {

class LibraryNamesTest : public ::testing::Test {
 protected:
  /// The entry's name, which add() returns.
  std::string add(const Json& entry) {
    return names_.add(JsonDocument::parse(entry.dump(), "l.json").root());
  }
  std::string refusal(const Json& entry) {
    try {
      add(entry);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      return error.what();
    }
    ADD_FAILURE() << "accepted: " << entry.dump();
    return {};
  }
  LibraryNames names_;
};

TEST_F(LibraryNamesTest, AreFoundHoweverTheyAreSpelt) {
  EXPECT_EQ(add({{"name", "A100-SXM4-80GB"}, {"aliases", {"A100-80G"}}}), "A100-SXM4-80GB");
  add({{"name", "Xeon 8480+"}});
  add({{"name", "Xeon 8480"}});
  add({{"name", "Gen 1.5"}});
  for (const char* spelling : {"A100-SXM4-80GB", "a100 sxm4 80gb", "A100_80g", "a10080G"})
    EXPECT_EQ(names_.find(spelling), 0U) << spelling;
  EXPECT_EQ(names_.find("xeon-8480+"), 1U);
  EXPECT_EQ(names_.find("xeon-8480"), 2U) << "a plus is part of a name";
  EXPECT_EQ(names_.find("gen1.5"), 3U);
  EXPECT_EQ(names_.find("gen15"), std::nullopt) << "and a point";
  EXPECT_EQ(names_.find("A100"), std::nullopt);
  EXPECT_EQ(names_.find(""), std::nullopt);
}

TEST_F(LibraryNamesTest, AreOfOneEntryEach) {
  add({{"name", "One"}, {"aliases", {"first", "ONE"}}});
  EXPECT_NE(refusal({{"name", "Two"}, {"aliases", {"second", "F-I-R-S-T"}}})
                .find("aliases[1]: \"F-I-R-S-T\" also names an earlier entry, there spelt \"first\""),
            std::string::npos);
  EXPECT_NE(refusal({{"name", "-/-"}}).find("name: expected a name with letters or digits"),
            std::string::npos);
  EXPECT_NE(refusal({{"alias", "x"}}).find("the field \"name\" is missing"), std::string::npos);
}

TEST_F(LibraryNamesTest, SuggestTheNearestAsItIsSpelt) {
  EXPECT_EQ(names_.nearest("H100"), std::nullopt) << "there is none";
  add({{"name", "H100-SXM5"}, {"aliases", {"H100"}}});
  add({{"name", "ConnectX-7"}});
  EXPECT_EQ(names_.nearest("h10O"), "H100");
  EXPECT_EQ(names_.nearest("conectx 7"), "ConnectX-7");
  EXPECT_EQ(names_.nearest("abacus with many beads"), std::nullopt);
}

TEST(LibraryFiles, AreThoseOfTheFolderThatTheVariableNames) {
  const TemporaryFolder folder;
  folder.write("devices.json", "{}");
  ::setenv("TOMBOLO_LIBRARY", folder.path().c_str(), 1);
  EXPECT_EQ(library_file("devices.json"), folder.file("devices.json"));
  // Not the one beside the program: a folder of one's own holds both files.
  EXPECT_THROW(library_file("nics.json"), Error);
  ::unsetenv("TOMBOLO_LIBRARY");
  EXPECT_TRUE(library_file("nics.json").ends_with("/nics.json")) << "beside the program";
}

TEST(LibraryFiles, HaveAVersionAndMayHaveANote) {
  const auto root_of = [](const char* text) { return library_root(JsonDocument::parse(text, "l.json")); };
  EXPECT_TRUE(root_of(R"({"tombolo_library": 1, "note": "n", "x": 2})").field("x").is_number());
  for (const char* bad : {R"({"tombolo_library": 2})", R"({"tombolo_library": 0})", R"({"note": "n"})",
                          R"({"tombolo_library": 1, "note": 5})", "[]"})
    EXPECT_THROW(root_of(bad), Error) << bad;
}

}  // namespace
}  // namespace tombolo::topology
