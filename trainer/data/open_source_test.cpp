// The kinds of data, told apart by content, and read by position.
#include "trainer/data/open_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "base/randomized_test.h"
#include "base/temporary_folder.h"
#include "trainer/data/text_encoder.h"
#include "trainer/data/text_file.h"
#include "trainer/data/token_file.h"
#include "trainer/data/tokenized_text.h"
#include "trainer/data/tokenizer_files.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;
using Tokens = std::vector<std::int32_t>;

const std::string kTokenizer = TOMBOLO_SOURCE_DIR "/trainer/data/recorded/tokenizer.json";

Tokens all_of(TokenSource& source) {
  Tokens tokens(source.size());
  source.read(0, tokens);
  return tokens;
}

void write_tokens(const std::string& path, const Tokens& tokens) {
  TokenFileWriter writer(path);
  for (std::size_t at = 0; at < tokens.size(); at += 7)
    writer.append(std::span(tokens).subspan(at, std::min<std::size_t>(7, tokens.size() - at)));
  writer.finish();
}

TEST(DataPaths, AreAFileAPatternOrAList) {
  const TemporaryFolder folder;
  for (const char* name : {"b_1", "b_0", "a,b", "c"}) folder.write(name, "x");
  const auto paths = [&](const std::string& data) { return data_paths(folder.file(data)); };
  EXPECT_EQ(paths("c"), (std::vector{folder.file("c")}));
  EXPECT_EQ(paths("none"), (std::vector{folder.file("none")}));  // opening it says what is wrong
  EXPECT_EQ(paths("a,b"), (std::vector{folder.file("a,b")}));
  EXPECT_EQ(paths("b_*"), (std::vector{folder.file("b_0"), folder.file("b_1")}));
  EXPECT_EQ(data_paths(folder.file("c") + "," + folder.file("b_?")),
            (std::vector{folder.file("c"), folder.file("b_0"), folder.file("b_1")}));
  expect_refusal([&] { paths("d_*"); }, {"d_*", "no file fits"});
  expect_refusal([&] { data_paths(folder.file("c") + ",,"); }, {"empty"});
}

TEST(OpenSource, BytesOfSeveralFilesFollowEachOther) {
  const TemporaryFolder folder;
  folder.write("t1", "abc");
  folder.write("t2", "");
  folder.write("t3", "de");
  const auto source = open_source({folder.file("t?"), ""});
  EXPECT_EQ(all_of(*source), (Tokens{'a', 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(source->vocabulary(), 256);
  Tokens part(2);
  source->read(2, part);
  EXPECT_EQ(part, (Tokens{'c', 'd'}));
  EXPECT_NE(source->name().find("t1 and 2 more"), std::string::npos);
}

TEST(OpenSource, ShardsOfTokensAreOneSequence) {
  const TemporaryFolder folder;
  Tokens expected;
  // More files than are open at once.
  for (int shard = 0; shard < static_cast<int>(JoinedFiles::kMostOpen) + 20; ++shard) {
    Tokens tokens(static_cast<std::size_t>(shard % 5));
    std::iota(tokens.begin(), tokens.end(), 100 * shard);
    write_tokens(folder.file(fmt::format("train_{:03}.bin", shard)), tokens);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  const DataOptions options{folder.file("train_*.bin"), ""};
  EXPECT_EQ(data_kind(options), DataKind::kTokenFiles);
  EXPECT_EQ(data_vocabulary(options), 50257);
  const auto source = open_source(options);
  EXPECT_EQ(all_of(*source), expected);
  std::mt19937 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    const std::size_t at = random() % expected.size();
    Tokens part(random() % (expected.size() - at));
    source->read(at, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(at)));
  }
}

TEST(OpenSource, ATokenFilesBytesAreLlmCs) {
  const TemporaryFolder folder;
  write_tokens(folder.file("file"), {1, 50256, 300});
  const std::string bytes = folder.read("file");
  ASSERT_EQ(bytes.size(), 1024U + 6);
  std::array<std::int32_t, 4> header{};
  std::memcpy(header.data(), bytes.data(), sizeof header);
  EXPECT_EQ(header, (std::array<std::int32_t, 4>{20240520, 1, 3, 0}));
  EXPECT_EQ(bytes.substr(1024), std::string("\x01\x00\x50\xc4\x2c\x01", 6));
  expect_refusal([&] { write_tokens(folder.file("high"), {65536}); }, {"65536", "two bytes"});
  EXPECT_FALSE(std::filesystem::exists(folder.file("high")));
}

TEST(OpenSource, TokenFilesThatAreMalformedAreRefusedByName) {
  const TemporaryFolder folder;
  write_tokens(folder.file("good"), {1, 2, 3});
  const std::string good = folder.read("good");
  const auto with = [&](std::size_t index, std::int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * index, &value, sizeof value);
    folder.write("bad", bytes);
    return [&folder] { open_source({folder.file("bad"), ""}); };
  };
  expect_refusal(with(0, 20240801), {"bad", "Llama 3"});
  expect_refusal(with(1, 2), {"version 2", "version 1"});
  expect_refusal(with(2, 4), {"4 tokens", "3 follow"});
  expect_refusal(with(2, -1), {"-1 tokens"});
  folder.write("bad", good.substr(0, 1000));
  expect_refusal([&] { open_source({folder.file("bad"), ""}); }, {"1000 bytes"});
  folder.write("bad", good + "x");
  expect_refusal([&] { open_source({folder.file("bad"), ""}); }, {"3 tokens"});
  folder.write("bad", "some text");
  expect_refusal([&] { open_source({folder.file("bad") + "," + folder.file("good"), ""}); }, {"1 of 2"});
  expect_refusal([&] { open_source({folder.file("none"), ""}); }, {"No such file"});
}

TEST(OpenSource, TextBecomesTheTokenizersTokens) {
  const TemporaryFolder folder;
  folder.write("t1", "In the begin");
  folder.write("t2", "ning, \xff and so on.");
  const DataOptions options{folder.file("t*"), kTokenizer};
  EXPECT_EQ(data_kind(options), DataKind::kText);
  EXPECT_EQ(data_vocabulary(options), 401);
  const auto source = open_source(options);
  const Tokenizer tokenizer = load_tokenizer(kTokenizer);
  EXPECT_EQ(all_of(*source), TextEncoder(tokenizer).encode("In the beginning, \xff and so on."));
  Tokens part(3);
  source->read(2, part);
  EXPECT_EQ(part[1], all_of(*source)[3]);
  folder.write("empty", "");
  EXPECT_EQ(open_source({folder.file("empty"), kTokenizer})->size(), 0U);
}

// However small the window, the tokens are those of the whole, unless one piece fills it.
TEST(EncodeFiles, WindowsDoNotShow) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = load_tokenizer(kTokenizer);
  std::mt19937 random(test_seed());
  std::string text;
  while (text.size() < 5000)
    text += std::array{"it's ", "we'll ", "  \n", "漢字 ", "😀", "x1 ", "the "}[random() % 7];
  folder.write("text", text);
  for (const std::size_t window : {std::size_t{150}, std::size_t{1000}, kEncodingWindow}) {
    JoinedFiles files = whole_files({folder.file("text")});
    Tokens tokens;
    encode_files(files, tokenizer, window, [&](std::span<const std::int32_t> more) {
      tokens.insert(tokens.end(), more.begin(), more.end());
    });
    EXPECT_EQ(tokens, TextEncoder(tokenizer).encode(text)) << window;
  }
  folder.write("long", std::string(1000, 'a') + "漢" + std::string(1000, ' '));
  JoinedFiles files = whole_files({folder.file("long")});
  Tokens tokens;
  encode_files(files, tokenizer, 100, [&](std::span<const std::int32_t> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  EXPECT_EQ(tokenizer.decode(tokens), folder.read("long"));
}

}  // namespace
}  // namespace tombolo::trainer
