#include "probe/measure/endpoint_list.h"

#include <charconv>
#include <span>

#include "base/error.h"
#include "base/format.h"

namespace tombolo::probe {
namespace {

constexpr std::size_t kLengthDigits = 8;  // hexadecimal

}  // namespace

std::string encode_endpoints(const EndpointList& endpoints) {
  std::string text;
  for (const auto& endpoint : endpoints) {
    const std::vector<std::byte> one = endpoint ? endpoint->encode() : std::vector<std::byte>();
    text += fmt::format("{:0{}x}", one.size(), kLengthDigits);
    text.append(reinterpret_cast<const char*>(one.data()), one.size());
  }
  return text;
}

EndpointList decode_endpoints(std::string_view text) {
  EndpointList endpoints;
  while (!text.empty()) {
    std::size_t length = 0;
    const std::string_view digits = text.substr(0, kLengthDigits);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), length, 16);
    text.remove_prefix(digits.size());
    if (digits.size() != kLengthDigits || read.ec != std::errc{} || read.ptr != text.data() ||
        length > text.size())
      fail(Cause::kRemote, "probe: a rank sent a broken list of endpoints");
    const auto bytes = std::as_bytes(std::span<const char>(text.data(), length));
    endpoints.push_back(length > 0 ? std::optional(transport::Endpoint::decode(bytes)) : std::nullopt);
    text.remove_prefix(length);
  }
  return endpoints;
}

}  // namespace tombolo::probe
