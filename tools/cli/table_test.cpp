#include "tools/cli/table.h"

#include <gtest/gtest.h>

namespace tombolo::tools {
namespace {

TEST(Table, AlignsItsColumns) {
  Table table({"NAME", "WHY"});
  table.add({"eth0", "physical"});
  table.add({"β", ""});
  EXPECT_EQ(table.text(0), "NAME  WHY\neth0  physical\nβ\n");
}

TEST(Table, WrapsTheLastColumnToTheTerminal) {
  Table table({"A", "MEANING"});
  table.add({"x", "one two three four five six seven"});
  EXPECT_EQ(table.text(27), "A  MEANING\nx  one two three four five\n   six seven\n");
}

TEST(Table, DoesNotWrapWhereTheTerminalIsTooNarrow) {
  Table table({"A", "MEANING"});
  table.add({"x", "one two three four five six seven"});
  EXPECT_EQ(table.text(10), "A  MEANING\nx  one two three four five six seven\n");
}

}  // namespace
}  // namespace tombolo::tools
