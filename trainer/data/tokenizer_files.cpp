#include "trainer/data/tokenizer_files.h"

#include <openssl/evp.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "trainer/model/input_file.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "llm.c's tokenizer file is little-endian");

constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::size_t kEndOfTextNumber = 50256;  // in GPT-2's vocabulary

using Numbers = std::unordered_map<std::string, std::int32_t>;

/// The characters that stand for bytes in GPT-2's files, which hold no blanks nor control characters: a
/// printable Latin-1 byte is itself, the n-th of the others U+0100 + n.
class ByteCharacters {
 public:
  ByteCharacters() {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool itself = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      of_character_[itself ? byte : next++] = static_cast<int>(byte);
    }
  }

  /// The bytes for which a token's characters stand; nothing where one of them stands for none.
  std::optional<std::string> bytes(std::string_view token) const {
    std::string result;
    for (std::size_t at = 0; at < token.size(); ++at) {
      unsigned character = static_cast<unsigned char>(token[at]);
      if (character >= 0x80) {  // all of them have at most two bytes in UTF-8
        if ((character & 0xe0) != 0xc0 || ++at == token.size()) return std::nullopt;
        character = (character & 0x1f) << 6 | (static_cast<unsigned char>(token[at]) & 0x3f);
      }
      if (character >= of_character_.size() || of_character_[character] < 0) return std::nullopt;
      result.push_back(static_cast<char>(of_character_[character]));
    }
    return result;
  }

 private:
  static constexpr std::array<int, 0x144> filled() {
    std::array<int, 0x144> none{};
    for (int& one : none) one = -1;
    return none;
  }
  std::array<int, 0x144> of_character_ = filled();
};

/// Adds a token; `special` where text never becomes it.
void put(TokenizerParts& parts, std::size_t number, std::string bytes, bool special) {
  if (number >= Tokenizer::kMostTokens)
    fail(Cause::kInvalidUsage, "tokenizer {}: token number {}, but at most {} are supported", parts.name,
         number, Tokenizer::kMostTokens - 1);
  if (number >= parts.tokens.size()) {
    parts.tokens.resize(number + 1);
    parts.special.resize(number + 1);
  }
  parts.tokens[number] = std::move(bytes);
  parts.special[number] = special;
}

/// Tokens of a JSON object, numbers by tokens as GPT-2 writes them.
Numbers put_vocabulary(TokenizerParts& parts, const JsonCursor& vocabulary) {
  const ByteCharacters characters;
  Numbers numbers;
  for (const auto& [token, number] : vocabulary.members()) {
    const auto value =
        static_cast<std::size_t>(number.integer(0, static_cast<std::int64_t>(Tokenizer::kMostTokens) - 1));
    if (value < parts.tokens.size() && !parts.tokens[value].empty())
      number.reject("two tokens have this number");
    auto bytes = characters.bytes(token);
    const bool special = !bytes || bytes->empty() || token == kEndOfText;
    put(parts, value, special ? token : std::move(*bytes), special);
    numbers.emplace(token, static_cast<std::int32_t>(value));
  }
  return numbers;
}

/// `where` says where the merge stands, for messages.
void put_merge(TokenizerParts& parts, const Numbers& numbers, const std::string& left,
               const std::string& right, const std::string& where) {
  const auto number = [&](const std::string& token) {
    const auto found = numbers.find(token);
    if (found == numbers.end())
      fail(Cause::kInvalidUsage, "{}: merges '{}' and '{}', but the vocabulary has no '{}'", where, left,
           right, token);
    return found->second;
  };
  parts.merges.push_back(
      {number(left), number(right), number(left + right), static_cast<std::int32_t>(parts.merges.size())});
}

/// Merges of a vocabulary whose numbers are ranks: two neighbours merge wherever their bytes together are a
/// token.
void put_merges_by_rank(TokenizerParts& parts) {
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (std::size_t number = 0; number < parts.tokens.size(); ++number)
    if (!parts.tokens[number].empty() && !parts.special[number])
      numbers.emplace(parts.tokens[number], static_cast<std::int32_t>(number));
  for (const auto& [bytes, number] : numbers) {
    if (bytes.size() > Tokenizer::kLongestToken) continue;  // refused later
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = numbers.find(bytes.substr(0, cut));
      if (left == numbers.end()) continue;
      const auto right = numbers.find(bytes.substr(cut));
      if (right != numbers.end()) parts.merges.push_back({left->second, right->second, number, number});
    }
  }
}

/// The next line without its line break; the rest stays in `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Left and right of the only blank.
std::optional<std::pair<std::string_view, std::string_view>> two_words(std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 == line.size() ||
      line.find(' ', blank + 1) != std::string_view::npos)
    return std::nullopt;
  return std::pair{line.substr(0, blank), line.substr(blank + 1)};
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int made =
      ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                        reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (made != static_cast<int>(bytes.size())) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.erase(bytes.size() - padding);
  return bytes;
}

struct Ranked {
  std::string bytes;
  std::size_t rank;
};

/// A line of a tiktoken file.
std::optional<Ranked> ranked(std::string_view line) {
  const auto words = two_words(line);
  if (!words || words->first.size() > 2 * Tokenizer::kLongestToken) return std::nullopt;
  auto bytes = from_base64(words->first);
  std::size_t rank = 0;
  const char* const end = words->second.data() + words->second.size();
  const auto [stop, error] = std::from_chars(words->second.data(), end, rank);
  if (!bytes || error != std::errc{} || stop != end) return std::nullopt;
  return Ranked{std::move(*bytes), rank};
}

bool is_llmc(std::string_view bytes) {
  constexpr std::uint32_t kMagic = 20240328;
  std::uint32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == kMagic;
}

bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

void refuse_unlike_gpt2(const JsonCursor& cursor, const std::string& what) {
  try {
    cursor.reject(what + ": only GPT-2's byte-level BPE is supported");
  } catch (const Error& error) {
    fail(Cause::kUnsupported, "{}", error.what());
  }
}

/// Throws kUnsupported where encoding takes a step that GPT-2's does not, or leaves one out.
void check_like_gpt2(const JsonCursor& root) {
  if (const auto normalizer = root.optional("normalizer"))
    refuse_unlike_gpt2(*normalizer, "text is normalised before it is encoded");
  const JsonCursor pieces = root.field("pre_tokenizer");
  if (pieces.field("type").text() != "ByteLevel")
    refuse_unlike_gpt2(pieces, "text is split by " + pieces.field("type").text());
  const auto is_true = [](const std::optional<JsonCursor>& flag) { return flag && flag->boolean(); };
  if (is_true(pieces.optional("add_prefix_space"))) refuse_unlike_gpt2(pieces, "a blank is put before text");
  const auto use_regex = pieces.optional("use_regex");
  if (use_regex && !use_regex->boolean()) refuse_unlike_gpt2(pieces, "text is not split by GPT-2's pattern");
  const JsonCursor model = root.field("model");
  if (const auto type = model.optional("type"); type && type->text() != "BPE")
    refuse_unlike_gpt2(*type, "the model is " + type->text());
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto given = model.optional(affix); given && !given->text().empty())
      refuse_unlike_gpt2(*given, "tokens carry marks");
  if (const auto dropout = model.optional("dropout"))
    refuse_unlike_gpt2(*dropout, "merges are left out at random");
  if (is_true(model.optional("ignore_merges"))) refuse_unlike_gpt2(model, "whole pieces are looked up first");
}

/// The first of `names` that is a file in `folder`; empty where none is.
std::string file_in(const std::filesystem::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::filesystem::is_regular_file(folder / name)) return (folder / name).string();
  return {};
}

std::string read_tokenizer_file(const std::string& path) {
  return InputFile("tokenizer", path).read_all(kMostFileBytes);
}

TokenizerParts parts_of_file(const std::string& path) {
  const std::string text = read_tokenizer_file(path);
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (is_llmc(text)) return parse_llmc_tokenizer(text, path);
  if (is_json(text)) {
    if (JsonDocument::parse(text, path).root().optional("model")) return parse_tokenizer_json(text, path);
    const std::string merges = file_in(folder, {"vocab.bpe", "merges.txt"});
    if (merges.empty())
      fail(Cause::kInvalidUsage,
           "tokenizer {}: a vocabulary alone; put the merges (vocab.bpe or merges.txt) beside it", path);
    return parse_merges(read_tokenizer_file(merges), text, path);
  }
  std::string_view rest = text;
  const std::string_view first = take_line(rest);
  if (ranked(first)) return parse_ranks(text, path);
  if (!first.starts_with("#version") && !two_words(first))
    fail(Cause::kInvalidUsage,
         "tokenizer {}: none of the known forms: vocab.bpe or merges.txt, tokenizer.json, gpt2.tiktoken, "
         "gpt2_tokenizer.bin",
         path);
  const std::string vocabulary = file_in(folder, {"encoder.json", "vocab.json"});
  if (vocabulary.empty())
    fail(Cause::kInvalidUsage,
         "tokenizer {}: merges alone; put the vocabulary (encoder.json or vocab.json) beside it", path);
  return parse_merges(text, read_tokenizer_file(vocabulary), path);
}

}  // namespace

TokenizerParts parse_merges(std::string_view merges, std::string_view vocabulary, const std::string& name) {
  TokenizerParts parts;
  parts.name = name;
  const Numbers numbers =
      put_vocabulary(parts, JsonDocument::parse(vocabulary, "vocabulary of " + name).root());
  for (int number = 1; !merges.empty(); ++number) {
    const std::string_view line = take_line(merges);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::string where = fmt::format("tokenizer {}: line {} of the merges", name, number);
    const auto words = two_words(line);
    if (!words) fail(Cause::kInvalidUsage, "{}: expected two tokens", where);
    put_merge(parts, numbers, std::string(words->first), std::string(words->second), where);
  }
  return parts;
}

TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& name) {
  const JsonDocument document = JsonDocument::parse(json, name);
  const JsonCursor root = document.root();
  check_like_gpt2(root);
  TokenizerParts parts;
  parts.name = name;
  const Numbers numbers = put_vocabulary(parts, root.field("model").field("vocab"));
  for (const JsonCursor& merge : root.field("model").field("merges").elements()) {
    if (merge.is_text()) {
      const std::string text = merge.text();
      const auto words = two_words(text);
      if (!words) merge.reject("expected two tokens");
      put_merge(parts, numbers, std::string(words->first), std::string(words->second), name);
    } else {
      const auto pair = merge.elements();
      if (pair.size() != 2) merge.reject("expected two tokens");
      put_merge(parts, numbers, pair[0].text(), pair[1].text(), name);
    }
  }
  if (const auto added = root.optional("added_tokens"))
    for (const JsonCursor& token : added->elements())
      put(parts,
          static_cast<std::size_t>(
              token.field("id").integer(0, static_cast<std::int64_t>(Tokenizer::kMostTokens) - 1)),
          token.field("content").text(), true);
  return parts;
}

TokenizerParts parse_ranks(std::string_view ranks, const std::string& name) {
  TokenizerParts parts;
  parts.name = name;
  for (int number = 1; !ranks.empty(); ++number) {
    const std::string_view line = take_line(ranks);
    if (line.empty()) continue;
    auto token = ranked(line);
    if (!token)
      fail(Cause::kInvalidUsage, "tokenizer {}:{}: expected a token in base64 and its rank", name, number);
    if (token->rank < parts.tokens.size() && !parts.tokens[token->rank].empty())
      fail(Cause::kInvalidUsage, "tokenizer {}:{}: two tokens have rank {}", name, number, token->rank);
    put(parts, token->rank, std::move(token->bytes), false);
  }
  // Those whose numbers need more than 16 bits are cl100k_base and later.
  if (parts.tokens.size() > 65536)
    fail(Cause::kUnsupported,
         "tokenizer {}: {} tokens; vocabularies of this size split text by other patterns than GPT-2's", name,
         parts.tokens.size());
  // The file leaves out what text never becomes.
  if (parts.tokens.size() >= kEndOfTextNumber &&
      (parts.tokens.size() == kEndOfTextNumber || parts.tokens[kEndOfTextNumber].empty()))
    put(parts, kEndOfTextNumber, std::string(kEndOfText), true);
  put_merges_by_rank(parts);
  return parts;
}

TokenizerParts parse_llmc_tokenizer(std::string_view bytes, const std::string& name) {
  std::array<std::uint32_t, 256> header{};
  if (!is_llmc(bytes) || bytes.size() < sizeof header)
    fail(Cause::kInvalidUsage, "tokenizer {}: {} bytes with no whole header of llm.c's tokenizer file", name,
         bytes.size());
  std::memcpy(header.data(), bytes.data(), sizeof header);
  bytes.remove_prefix(sizeof header);
  const std::uint32_t version = header[1], count = header[2];
  if (version != 1 && version != 2)
    fail(Cause::kInvalidUsage, "tokenizer {}: version {}; this build reads versions 1 and 2", name, version);
  if (count > Tokenizer::kMostTokens)
    fail(Cause::kInvalidUsage, "tokenizer {}: {} tokens, but at most {} are supported", name, count,
         Tokenizer::kMostTokens);
  const std::size_t end_of_text = version == 1 ? kEndOfTextNumber : header[3];
  TokenizerParts parts;
  parts.name = name;
  for (std::uint32_t number = 0; number < count; ++number) {
    const std::size_t length = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front());
    if (length == 0 || bytes.size() <= length)
      fail(Cause::kInvalidUsage, "tokenizer {}: token {} of {} is empty or cut short", name, number, count);
    put(parts, number, std::string(bytes.substr(1, length)), number == end_of_text);
    bytes.remove_prefix(1 + length);
  }
  if (!bytes.empty())
    fail(Cause::kInvalidUsage, "tokenizer {}: {} bytes follow the last of its {} tokens", name, bytes.size(),
         count);
  put_merges_by_rank(parts);
  return parts;
}

Tokenizer load_tokenizer(const std::string& path) {
  std::string file = path;
  if (std::filesystem::is_directory(path)) {
    file = file_in(path,
                   {"tokenizer.json", "vocab.json", "encoder.json", "gpt2.tiktoken", "gpt2_tokenizer.bin"});
    if (file.empty())
      fail(Cause::kInvalidUsage,
           "tokenizer {}: the folder has none of tokenizer.json, vocab.json, encoder.json, gpt2.tiktoken, "
           "gpt2_tokenizer.bin",
           path);
  }
  return Tokenizer(parts_of_file(file));
}

}  // namespace tombolo::trainer
