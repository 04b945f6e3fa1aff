#include "tools/cli/model_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

/// The options as they come out of a command line; CLI11's error where it refuses it.
ModelOptions model_options(const std::string& line) {
  ModelOptions options;
  CLI::App app;
  options.add_to(app);
  app.parse(line);
  return options;
}

TEST(ModelOptions, AFlagOverridesWhatTheModelSays) {
  const auto model = model_options(
                         "--model layers=2,hidden=32,heads=2,context=16,vocabulary=64,name=mine "
                         "--layers 4 --width 48 --heads 3 --context 8 --vocabulary 100")
                         .resolve();
  EXPECT_EQ(model.layers, 4);
  EXPECT_EQ(model.hidden, 48);
  EXPECT_EQ(model.heads, 3);
  EXPECT_EQ(model.context, 8);
  EXPECT_EQ(model.vocabulary, 100);
  EXPECT_EQ(model.name, "mine");
}

TEST(ModelOptions, WithoutThemTheModelStaysAsItIs) {
  const auto model =
      model_options("--model layers=2,hidden=32,heads=2,context=16,vocabulary=64,bytes=2").resolve();
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.hidden, 32);
  EXPECT_EQ(model.vocabulary, 64);
  EXPECT_EQ(model.bytes_per_value, 2);
}

TEST(ModelOptions, TheFiveSizesAreAModelWhoseTokensAreBytes) {
  const auto model = model_options("--layers 4 --width 48 --heads 3 --context 8").resolve();
  EXPECT_EQ(model.vocabulary, 256);
  EXPECT_EQ(model.name, "gpt");
}

TEST(ModelOptions, NameWhatIsMissingOrImpossible) {
  EXPECT_MENTIONS(error_of([] { model_options("").resolve(); }), "model: layers is 0");
  EXPECT_MENTIONS(error_of([] { model_options("--layers 2 --width 32 --heads 2").resolve(); }),
                  "model: context is 0");
  EXPECT_MENTIONS(error_of([] { model_options("--layers 2 --width 32 --heads 3 --context 8").resolve(); }),
                  "hidden 32 is not a multiple of heads 3");
  EXPECT_MENTIONS(error_of([] { model_options("--model gpt9-9b").resolve(); }), "gpt9-9b");
  for (const char* flag : {"--layers", "--width", "--heads", "--context", "--vocabulary"})
    EXPECT_THROW(model_options(std::string(flag) + " 0"), CLI::ValidationError) << flag;
}

}  // namespace
}  // namespace tombolo::tools
