// Little-endian fields in byte strings that cross the wire: a writer, and a reader that checks every length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace tombolo::transport {

template <typename Number>
void store_little_endian(std::byte* to, Number value) noexcept {
  static_assert(std::is_unsigned_v<Number>);
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    to[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <typename Number>
Number load_little_endian(const std::byte* from) noexcept {
  static_assert(std::is_unsigned_v<Number>);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  return static_cast<Number>(value);
}

class ByteWriter {
 public:
  template <typename Number>
  void number(Number value) {
    std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(Number));
    store_little_endian(bytes_.data() + at, value);
  }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  /// Writes one length byte, then the text, cut at 255 bytes.
  void text(std::string_view text) {
    text = text.substr(0, 255);
    number(static_cast<std::uint8_t>(text.size()));
    raw(std::as_bytes(std::span(text)));
  }
  /// Writes exactly `width` bytes: the text, cut or padded with zeros.
  void padded_text(std::string_view text, std::size_t width) {
    text = text.substr(0, width);
    raw(std::as_bytes(std::span(text)));
    bytes_.resize(bytes_.size() + width - text.size());
  }
  std::size_t size() const noexcept { return bytes_.size(); }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }
  std::span<const std::byte> view() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads fields in turn. Throws kRemote where the bytes end too early, naming `what`. The bytes must outlive
/// the reader.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  /// The next little-endian integer.
  template <typename Number>
  Number number() {
    return load_little_endian<Number>(raw(sizeof(Number)).data());
  }
  /// The next `count` bytes, as a view of the bytes that were given.
  std::span<const std::byte> raw(std::size_t count) {
    if (count > bytes_.size() - at_) {
      fail(Cause::kRemote, "{} is truncated: {} bytes wanted at offset {} of {}", what_, count, at_,
           bytes_.size());
    }
    auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  /// A text after its length byte, made printable.
  std::string text() { return printable(raw(number<std::uint8_t>())); }
  /// A text of `width` bytes without the zeros that pad it, made printable.
  std::string padded_text(std::size_t width) {
    auto part = raw(width);
    std::size_t length = 0;
    while (length < width && part[length] != std::byte{0}) ++length;
    return printable(part.first(length));
  }
  std::size_t remaining() const noexcept { return bytes_.size() - at_; }

 private:
  /// Makes a text safe to print: names from the wire end in log lines and messages, so control characters are
  /// replaced.
  static std::string printable(std::span<const std::byte> bytes) {
    std::string text;
    text.reserve(bytes.size());
    for (std::byte byte : bytes) {
      auto character = static_cast<unsigned char>(byte);
      text.push_back(character < 0x20 || character == 0x7f ? '?' : static_cast<char>(character));
    }
    return text;
  }
  std::span<const std::byte> bytes_;
  std::string_view what_;
  std::size_t at_ = 0;
};

}  // namespace tombolo::transport
