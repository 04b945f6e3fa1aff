// The recorded tokenizer (recorded/make.py) in all its forms, against what other libraries made of the same
// texts.
#include "trainer/data/tokenizer_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "trainer/data/text_encoder.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

using test::expect_refusal;

const std::string kRecorded = TOMBOLO_SOURCE_DIR "/trainer/data/recorded/";

Json recorded_encodings() {
  std::ifstream file(kRecorded + "encodings.json");
  return Json::parse(file);
}

std::string recorded(const std::string& name) {
  std::ifstream file(kRecorded + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class EveryForm : public testing::TestWithParam<const char*> {};

TEST_P(EveryForm, EncodesAsOtherLibrariesDoAndDecodesToTheSameBytes) {
  const Tokenizer tokenizer = load_tokenizer(kRecorded + GetParam());
  TextEncoder encoder(tokenizer);
  const Json all = recorded_encodings();
  ASSERT_GT(all.size(), 50U);
  for (const Json& one : all) {
    const auto text = one["text"].get<std::string>();
    const auto tokens = encoder.encode(text);
    EXPECT_EQ(tokens, one["tokens"].get<std::vector<std::int32_t>>()) << text;
    EXPECT_EQ(tokenizer.decode(tokens), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, EveryForm,
                         testing::Values("merges.txt", "vocab.json", "tokenizer.json", "small.tiktoken",
                                         "llmc_tokenizer.bin", ""),
                         [](const auto& one) {
                           std::string name = one.param;
                           if (name.empty()) name = "folder";
                           return name.substr(0, name.find('.')) + std::to_string(one.index);
                         });

TEST(TokenizerFiles, SpecialTokensAreDecodedButNeverMade) {
  for (const char* form : {"vocab.json", "tokenizer.json", "llmc_tokenizer.bin"}) {
    const Tokenizer tokenizer = load_tokenizer(kRecorded + form);
    EXPECT_EQ(tokenizer.vocabulary(), 401) << form;
    EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{400}), "<|endoftext|>");
    EXPECT_GT(TextEncoder(tokenizer).encode("<|endoftext|>").size(), 1U);
  }
}

TEST(TokenizerFiles, Gpt2sRanksLeaveRoomForTheEndOfText) {
  std::string ranks;
  for (int rank = 0; rank < 50256; ++rank) {
    // "AAAA" + 4 base64 digits of the rank: 6 bytes, all different.
    const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ranks += "AAAA";
    for (int shift = 18; shift >= 0; shift -= 6) ranks += digits[(rank >> shift) & 63];
    ranks += ' ' + std::to_string(rank) + '\n';
  }
  const Tokenizer tokenizer(parse_ranks(ranks, "gpt2.tiktoken"));
  EXPECT_EQ(tokenizer.vocabulary(), 50257);
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{50256}), "<|endoftext|>");
}

TEST(TokenizerFiles, ByteThatTheVocabularyLacksIsNamed) {
  const Tokenizer tokenizer(parse_ranks("YQ== 0\nYg== 1\nYWI= 2\n", "ab"));
  EXPECT_EQ(TextEncoder(tokenizer).encode("abba"), (std::vector<std::int32_t>{2, 1, 0}));
  expect_refusal([&] { TextEncoder(tokenizer).encode("abc"); }, {"tokenizer ab", "0x63"});
  expect_refusal([&] { tokenizer.decode(std::vector<std::int32_t>{3}); },
                 {"3 is no token", "vocabulary of 3"});
}

TEST(TokenizerFiles, ThoseThatAreMalformedAreRefusedByName) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, std::initializer_list<const char*> words,
                           Cause cause = Cause::kInvalidUsage) {
    folder.write("file", bytes);
    expect_refusal([&] { load_tokenizer(folder.file("file")); }, words, cause);
  };
  expect_refusal([&] { load_tokenizer(folder.file("none")); }, {"none", "No such file"});
  expect_refusal([&] { load_tokenizer(folder.path().string()); }, {"tokenizer.json", "gpt2_tokenizer.bin"});
  refused("", {"file", "none of the known forms"});
  refused("what is this", {"none of the known forms"});
  refused("#version: 0.2\na b\n", {"merges alone", "vocab.json"});
  refused(R"({"a": 0})", {"vocabulary alone", "merges.txt"});
  refused(R"({"a": )", {"file"});
  refused("YQ== 0\nYg== 0\n", {":2", "rank 0"});
  refused("YQ== 0\nnonsense\n", {":2", "base64"});
  refused("YQ== 99999999\n", {"99999999"});
  refused("YQ== 0\nYQ== 1\n", {"same bytes"});

  std::string llmc = recorded("llmc_tokenizer.bin");
  refused(llmc.substr(0, 100), {"header"});
  refused(llmc.substr(0, llmc.size() - 1), {"token 400 of 401", "cut short"});
  refused(llmc + "x", {"1 bytes follow"});
  llmc[4] = 9;
  refused(llmc, {"version 9"});

  Json json = Json::parse(recorded("tokenizer.json"));
  const auto changed = [&](const char* pointer, const Json& value) {
    Json other = json;
    other[Json::json_pointer(pointer)] = value;
    return other.dump();
  };
  refused(changed("/normalizer", {{"type", "NFC"}}), {"normalised", "GPT-2"}, Cause::kUnsupported);
  refused(changed("/pre_tokenizer/type", "Metaspace"), {"Metaspace"}, Cause::kUnsupported);
  refused(changed("/pre_tokenizer/add_prefix_space", true), {"blank"}, Cause::kUnsupported);
  refused(changed("/pre_tokenizer/use_regex", false), {"pattern"}, Cause::kUnsupported);
  refused(changed("/model/type", "Unigram"), {"Unigram"}, Cause::kUnsupported);
  refused(changed("/model/ignore_merges", true), {"pieces"}, Cause::kUnsupported);
  refused(changed("/model/merges/0", "no token"), {"'no'"});
  refused(changed("/model/merges/0", "one"), {"two tokens"});
  refused(changed("/model/vocab/a", -1), {"vocab"});
  refused(changed("/model/vocab/a", 1 << 30), {"vocab"});
  refused(changed("/model/vocab/a", 1), {"two tokens have this number"});
}

}  // namespace
}  // namespace tombolo::trainer
