#include "base/printable.h"

#include <cstddef>
#include <cstdint>

#include "base/format.h"

namespace tombolo {
namespace {

/// Bytes of the valid UTF-8 character (RFC 3629) that `text` begins with, or 0.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<std::uint8_t>(text[i]);
    if ((next & 0xc0U) != 0x80) return 0;
    code = code << 6 | (next & 0x3fU);
  }
  const bool overlong = code < (bytes == 4 ? 0x10000U : bytes == 3 ? 0x800U : 0x80U);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  const bool control = code < 0xa0;  // C1 controls included
  return overlong || surrogate || control || code > 0x10ffff ? 0 : bytes;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto byte = static_cast<std::uint8_t>(text[0]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    const std::size_t bytes = control ? 0 : character_bytes(text);
    if (bytes == 0) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

}  // namespace tombolo
