#include "trainer/data/text_splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::trainer {
namespace {

std::vector<std::string> pieces(std::string_view text) {
  TextSplitter splitter;
  std::vector<std::string> result;
  EXPECT_EQ(splitter.split(text, true, [&](std::string_view piece) { result.emplace_back(piece); }),
            text.size());
  return result;
}

using Pieces = std::vector<std::string>;

TEST(TextSplitter, CutsAsGpt2Does) {
  EXPECT_EQ(pieces(""), Pieces{});
  EXPECT_EQ(pieces("Hello world!"), (Pieces{"Hello", " world", "!"}));
  EXPECT_EQ(pieces("it's they'll 'S"), (Pieces{"it", "'s", " they", "'ll", " '", "S"}));
  EXPECT_EQ(pieces("a   b\n\n c "), (Pieces{"a", "  ", " b", "\n\n", " c", " "}));
  EXPECT_EQ(pieces("x12 34..5"), (Pieces{"x", "12", " 34", "..", "5"}));
  EXPECT_EQ(pieces("\u00e9\u0301t\u00e9"), (Pieces{"\u00e9", "\u0301", "t\u00e9"}));  // a mark is no letter
  EXPECT_EQ(pieces("\u00a0a\u3000"), (Pieces{"\u00a0", "a", "\u3000"}));
}

// Python's, Rust's and Unicode's white space: not U+180E, which was one until Unicode 6.3.
TEST(TextSplitter, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(pieces("\u180e!"), (Pieces{"\u180e!"}));
  EXPECT_EQ(pieces("\u0085!"), (Pieces{"\u0085", "!"}));
  EXPECT_EQ(pieces("\x1f!"), (Pieces{"\x1f!"}));
}

TEST(TextSplitter, BytesThatAreNotUtf8StandAlone) {
  EXPECT_EQ(pieces("ab\xff\xfe"
                   "c"),
            (Pieces{"ab", "\xff", "\xfe", "c"}));
  EXPECT_EQ(pieces("\xe2\x82"), (Pieces{"\xe2", "\x82"}));              // cut short
  EXPECT_EQ(pieces("\xed\xa0\x80"), (Pieces{"\xed", "\xa0", "\x80"}));  // a surrogate
  EXPECT_EQ(pieces("\xc0\x80z"), (Pieces{"\xc0", "\x80", "z"}));        // overlong
}

// However text is cut into portions, the pieces are those of the whole.
TEST(TextSplitter, PortionsGiveTheSamePieces) {
  std::mt19937 random(test_seed());
  const std::vector<std::string> atoms{"a",  "word", "'",    "l",      "ll",     "'re",   " ", "  ",
                                       "\n", "\t",   "1",    "22",     "!",      ".",     "é", "漢",
                                       "😀",  "\xff", "\xe2", "\u0301", "\u00a0", "\u3000"};
  TextSplitter splitter;
  for (int round = 0; round < test_rounds(300); ++round) {
    std::string text;
    for (auto count = random() % 200; count > 0; --count) text += atoms[random() % atoms.size()];
    Pieces got;
    std::string pending;
    for (std::size_t at = 0; at < text.size() || !pending.empty();) {
      const std::size_t take = std::min<std::size_t>(text.size() - at, 1 + random() % 40);
      pending += text.substr(at, take);
      at += take;
      const std::size_t done = splitter.split(pending, at == text.size(),
                                              [&](std::string_view piece) { got.emplace_back(piece); });
      pending.erase(0, done);
    }
    EXPECT_EQ(got, pieces(text)) << text;
  }
}

}  // namespace
}  // namespace tombolo::trainer
