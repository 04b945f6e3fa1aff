// Runs tombolo library as a user calls it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class LibraryCommand : public CommandTest {};

TEST_F(LibraryCommand, ListsEachKindWithItsFigures) {
  ASSERT_EQ(run({"library"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "devices.json");
  ASSERT_EQ(run({"library", "devices"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "A100-SXM4-80GB");
  EXPECT_MENTIONS(out_, "312 T bf16");
  ASSERT_EQ(run({"library", "nics"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "ConnectX-7");
  EXPECT_MENTIONS(out_, "400 Gbit/s");
  ASSERT_EQ(run({"library", "models"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "llama3-8b");
}

TEST_F(LibraryCommand, ShowsOneByAnyOfItsNames) {
  ASSERT_EQ(run({"library", "devices", "a100 sxm4 80gb"}), kExitOk) << err_;
  EXPECT_MENTIONS(out_, "name                    A100-SXM4-80GB\n");
  EXPECT_MENTIONS(out_, "source                  ");
  ASSERT_EQ(run({"library", "models", "gpt2-124m", "--json"}), kExitOk) << err_;
  EXPECT_EQ(Json::parse(out_).at("name"), "gpt2");
}

TEST_F(LibraryCommand, PrintsAllEntriesAsJson) {
  ASSERT_EQ(run({"library", "--json"}), kExitOk) << err_;
  const Json all = Json::parse(out_);
  for (const char* kind : {"devices", "nics", "models"}) {
    EXPECT_GT(all.at(kind).size(), 3U) << kind;
    ASSERT_EQ(run({"library", kind, "--json"}), kExitOk) << err_;
    EXPECT_EQ(Json::parse(out_), all.at(kind)) << kind;
  }
}

TEST_F(LibraryCommand, RefusesWhatItDoesNotKnow) {
  refuses({"library", "cables"}, {"cables"});
  refuses({"library", "models", "gpt2-124n"}, {"the library has no model \"gpt2-124n\"",
                                               "did you mean \"gpt2-124m\"?", "`tombolo library models`"});
  refuses({"library", "devices", "an abacus of wood"},
          {"the library has no device", "`tombolo library devices`"});
}

TEST_F(LibraryCommand, NamesTheFolderOfTheVariableThatHasNoLibrary) {
  const TemporaryVariable variable("TOMBOLO_LIBRARY", file("nowhere"));
  refuses({"library"}, {"nowhere"});
}

}  // namespace
}  // namespace tombolo::tools
