#include "base/printable.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("rank 3: a\tb\n"), "rank 3: a\tb\n");
  EXPECT_EQ(printable("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
}

TEST(Printable, ShowsWhatATerminalWouldObeyOrAReaderRefuse) {
  EXPECT_EQ(printable("\x1b[2Jx\x7f\r"), "\\x1b[2Jx\\x7f\\x0d");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xa7x"), "\\xa7x");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "a control character of eight bits";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
  EXPECT_EQ(printable("\xe4\xb8x"), "\\xe4\\xb8x") << "cut off";
}

}  // namespace
}  // namespace tombolo
