#include "transport/bootstrap/destination.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"

namespace tombolo::transport::bootstrap {
namespace {

// The first letter says what the hexadecimal digits after it name.
constexpr char kJoined = 'j', kRejoined = 'r', kAsked = 'a';
constexpr std::size_t kListenerDigits = 8;

/// Reads digits that fill the text; false for anything else, capitals included, so that each value has one
/// text.
template <typename Number>
bool parse_hex(std::string_view text, Number& value) noexcept {
  for (const char letter : text)
    if (!(letter >= '0' && letter <= '9') && !(letter >= 'a' && letter <= 'f')) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Destination Destination::of(const Hello& hello) noexcept {
  return {hello.purpose, hello.listener, hello.connection};
}

std::string Destination::server_name() const {
  std::string name = purpose == Purpose::kJoin     ? fmt::format("{}{:08x}", kJoined, listener)
                     : purpose == Purpose::kRejoin ? std::string(1, kRejoined)
                                                   : std::string(1, kAsked);
  for (const std::byte one : connection) name += fmt::format("{:02x}", std::to_integer<unsigned>(one));
  return name;
}

std::optional<Destination> Destination::parse(std::string_view name) noexcept {
  if (name.empty()) return std::nullopt;
  std::string_view digits = name.substr(1);
  Destination to;
  switch (name.front()) {
    case kJoined:
      to.purpose = Purpose::kJoin;
      if (!parse_hex(digits.substr(0, kListenerDigits), to.listener)) return std::nullopt;
      digits.remove_prefix(std::min(kListenerDigits, digits.size()));
      break;
    case kRejoined:
      to.purpose = Purpose::kRejoin;
      break;
    case kAsked:
      to.purpose = Purpose::kAsk;
      break;
    default:
      return std::nullopt;
  }
  if (digits.size() != 2 * to.connection.size()) return std::nullopt;
  for (std::size_t i = 0; i < to.connection.size(); ++i) {
    std::uint8_t value = 0;
    if (!parse_hex(digits.substr(2 * i, 2), value)) return std::nullopt;
    to.connection[i] = std::byte{value};
  }
  return to;
}

}  // namespace tombolo::transport::bootstrap
