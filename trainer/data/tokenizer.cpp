#include "trainer/data/tokenizer.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

TokenizerParts checked(TokenizerParts parts) {
  if (parts.tokens.size() > Tokenizer::kMostTokens)
    fail(Cause::kInvalidUsage, "tokenizer {}: {} tokens, but at most {} are supported", parts.name,
         parts.tokens.size(), Tokenizer::kMostTokens);
  parts.special.resize(parts.tokens.size());
  for (std::size_t number = 0; number < parts.tokens.size(); ++number)
    if (parts.tokens[number].size() > Tokenizer::kLongestToken)
      fail(Cause::kInvalidUsage, "tokenizer {}: token {} has {} bytes, but at most {} are supported",
           parts.name, number, parts.tokens[number].size(), Tokenizer::kLongestToken);
  const auto bytes_of = [&](std::int32_t number) -> const std::string* {
    if (number < 0 || static_cast<std::size_t>(number) >= parts.tokens.size()) return nullptr;
    const std::string& bytes = parts.tokens[static_cast<std::size_t>(number)];
    return bytes.empty() ? nullptr : &bytes;
  };
  for (const Merge& merge : parts.merges) {
    const std::string *left = bytes_of(merge.left), *right = bytes_of(merge.right),
                      *result = bytes_of(merge.result);
    if (left == nullptr || right == nullptr || result == nullptr || *left + *right != *result)
      fail(Cause::kInvalidUsage, "tokenizer {}: merge {} of tokens {} and {} does not make token {}",
           parts.name, merge.rank, merge.left, merge.right, merge.result);
  }
  return parts;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(checked(std::move(parts))), pairs_(parts_.merges) {
  bytes_.fill(-1);
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (std::size_t number = 0; number < parts_.tokens.size(); ++number) {
    const std::string& bytes = parts_.tokens[number];
    if (bytes.empty() || parts_.special[number]) continue;
    const auto [found, added] = numbers.try_emplace(bytes, number);
    if (!added)
      fail(Cause::kInvalidUsage, "{}: tokens {} and {} have the same bytes", name(), found->second, number);
    if (bytes.size() == 1) bytes_[static_cast<unsigned char>(bytes[0])] = static_cast<std::int32_t>(number);
  }
  parts_.merges = {};  // pairs_ has them
}

std::int32_t Tokenizer::byte_token(unsigned char byte) const {
  if (bytes_[byte] < 0)
    fail(Cause::kInvalidUsage, "{}: its vocabulary has no token for the byte 0x{:02x}, which the text holds",
         name(), byte);
  return bytes_[byte];
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= parts_.tokens.size())
      fail(Cause::kInvalidUsage, "{}: {} is no token of its vocabulary of {}", name(), token, vocabulary());
    text += parts_.tokens[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace tombolo::trainer
