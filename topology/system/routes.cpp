#include "topology/system/routes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/format.h"

namespace tombolo::topology {
namespace {

constexpr std::size_t kMostRoutes = 64;
constexpr unsigned kRouteUp = 0x1, kRouteGateway = 0x2, kRouteReject = 0x200, kRouteLocal = 0x80000000;

/// An address of 4 or 16 bytes in network order; `bits` is 0 where a text is no address.
struct Bytes {
  std::array<unsigned char, 16> value{};
  int bits = 0;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    std::string_view word = line.substr(0, line.find_first_of(" \t"));
    words.push_back(word);
    line.remove_prefix(word.size());
  }
}

std::optional<std::uint32_t> hex_of(std::string_view text) {
  std::uint32_t value = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (status != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Parses a network of /proc/net/route, which prints its bytes as one number of this machine: "0002000A"
/// where it is little-endian.
std::optional<Bytes> v4_of(std::string_view text) {
  auto number = hex_of(text);
  if (!number || text.size() != 8) return std::nullopt;
  Bytes bytes;
  bytes.bits = 32;
  std::memcpy(bytes.value.data(), &*number, sizeof *number);
  return bytes;
}

/// Parses 32 digits, as in /proc/net/if_inet6.
std::optional<Bytes> v6_of(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Bytes bytes;
  bytes.bits = 128;
  for (std::size_t i = 0; i < 16; ++i) {
    auto byte = hex_of(text.substr(2 * i, 2));
    if (!byte) return std::nullopt;
    bytes.value[i] = static_cast<unsigned char>(*byte);
  }
  return bytes;
}

Bytes ip_bytes(std::string_view text) noexcept {
  std::array<char, INET6_ADDRSTRLEN> copy{};
  Bytes bytes;
  if (text.size() >= copy.size()) return bytes;
  std::copy(text.begin(), text.end(), copy.begin());
  if (::inet_pton(AF_INET, copy.data(), bytes.value.data()) == 1) {
    bytes.bits = 32;
  } else if (::inet_pton(AF_INET6, copy.data(), bytes.value.data()) == 1) {
    bytes.bits = 128;
  }
  return bytes;
}

std::string ip_text(const Bytes& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(bytes.bits == 32 ? AF_INET : AF_INET6, bytes.value.data(), text.data(), text.size());
  return text.data();
}

/// False for link-local, multicast and loopback ranges, which say nothing about what an interface reaches.
bool is_plain(const Bytes& bytes) {
  const auto& value = bytes.value;
  if (bytes.bits == 32) return value[0] < 224 && value[0] != 127 && !(value[0] == 169 && value[1] == 254);
  return value[0] != 0xff && !(value[0] == 0xfe && (value[1] & 0xc0) == 0x80);
}

void add_once(std::vector<std::string>& all, std::string text) {
  if (all.size() < kMostRoutes && std::find(all.begin(), all.end(), text) == all.end())
    all.push_back(std::move(text));
}

void add_route(IpFacts& facts, const Bytes& destination, int length, bool gateway) {
  if (!is_plain(destination)) return;
  // A route to a single host without a router leads to the host's own address, or to a neighbour.
  if (!gateway && (length == destination.bits || length == 0)) return;
  add_once(gateway ? facts.routes : facts.networks, fmt::format("{}/{}", ip_text(destination), length));
}

/// The columns are: Iface Destination Gateway Flags RefCnt Use Metric Mask ...
void read_v4_routes(const SysTree& tree, std::map<std::string, IpFacts>& all) {
  for (const std::string& line : tree.lines("/proc/net/route")) {
    auto words = words_of(line);
    if (words.size() < 8) continue;
    auto destination = v4_of(words[1]), mask = v4_of(words[7]);
    auto flags = hex_of(words[3]);
    if (!destination || !mask || !flags || (*flags & kRouteUp) == 0 || (*flags & kRouteReject) != 0) continue;
    int length = 0;
    while (length < 32 && (mask->value[static_cast<std::size_t>(length / 8)] & (0x80 >> (length % 8))) != 0)
      ++length;
    add_route(all[std::string(words[0])], *destination, length, (*flags & kRouteGateway) != 0);
  }
}

/// The columns are: destination length source length next-hop metric references use flags device
void read_v6_routes(const SysTree& tree, std::map<std::string, IpFacts>& all) {
  for (const std::string& line : tree.lines("/proc/net/ipv6_route")) {
    auto words = words_of(line);
    if (words.size() < 10) continue;
    auto destination = v6_of(words[0]);
    auto length = hex_of(words[1]), flags = hex_of(words[8]);
    if (!destination || !length || *length > 128 || !flags) continue;
    if ((*flags & kRouteUp) == 0 || (*flags & (kRouteReject | kRouteLocal)) != 0 || words[9] == "lo")
      continue;
    add_route(all[std::string(words[9])], *destination, static_cast<int>(*length),
              (*flags & kRouteGateway) != 0);
  }
}

/// This host's own IPv4 addresses. In the kernel's tree of prefixes an address stands on the line before "/32
/// host LOCAL".
std::vector<std::string> local_v4(const SysTree& tree) {
  std::vector<std::string> all;
  std::string before;
  for (const std::string& line : tree.lines("/proc/net/fib_trie")) {
    auto words = words_of(line);
    if (words.size() == 3 && words[0] == "/32" && words[1] == "host" && words[2] == "LOCAL")
      add_once(all, before);
    before = words.size() == 2 && words[0] == "|--" ? std::string(words[1]) : std::string();
  }
  return all;
}

/// The interface with the longest prefix that contains the address.
std::string owner_among(const std::string& address, const std::map<std::string, IpFacts>& all,
                        std::vector<std::string> IpFacts::*prefixes) {
  std::string owner;
  int longest = -1;
  for (const auto& [interface, facts] : all) {
    for (const std::string& prefix : facts.*prefixes) {
      int length = 0;
      std::from_chars(prefix.data() + prefix.find('/') + 1, prefix.data() + prefix.size(), length);
      if (length > longest && is_within(address, prefix)) {
        owner = interface;
        longest = length;
      }
    }
  }
  return owner;
}

/// The interface in whose network an address lies. Clouds assign addresses without a network; these belong to
/// the default route's interface.
std::string owner_of(const std::string& address, const std::map<std::string, IpFacts>& all) {
  std::string owner = owner_among(address, all, &IpFacts::networks);
  return owner.empty() ? owner_among(address, all, &IpFacts::routes) : owner;
}

}  // namespace

bool is_within(std::string_view address, std::string_view prefix) noexcept {
  const auto slash = prefix.find('/');
  if (slash == std::string_view::npos) return false;
  const Bytes a = ip_bytes(address.substr(0, address.find('%'))), b = ip_bytes(prefix.substr(0, slash));
  int length = 0;
  auto [rest, status] = std::from_chars(prefix.data() + slash + 1, prefix.data() + prefix.size(), length);
  if (status != std::errc{} || rest != prefix.data() + prefix.size() || a.bits == 0 || a.bits != b.bits)
    return false;
  if (length < 0 || length > a.bits) return false;
  for (int bit = 0; bit < length; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((a.value[byte] ^ b.value[byte]) & (0x80 >> (bit % 8))) != 0) return false;
  }
  return true;
}

std::map<std::string, IpFacts> read_ip_facts(const SysTree& tree, bool* addresses_known) {
  std::map<std::string, IpFacts> all;
  read_v4_routes(tree, all);
  for (const std::string& address : local_v4(tree)) {
    const std::string owner = address.starts_with("127.") ? "lo" : owner_of(address, all);
    if (!owner.empty()) add_once(all[owner].addresses, address);
  }
  read_v6_routes(tree, all);
  // The columns are: address index prefix-length scope flags device
  for (const std::string& line : tree.lines("/proc/net/if_inet6")) {
    auto words = words_of(line);
    if (words.size() < 6) continue;
    auto address = v6_of(words[0]);
    if (!address) continue;
    const bool link_local = address->value[0] == 0xfe && (address->value[1] & 0xc0) == 0x80;
    const std::string device(words[5]);
    add_once(all[device].addresses,
             ip_text(*address) + (link_local ? fmt::format("%{}", device) : std::string()));
  }
  auto preference = [](const std::string& address) {
    if (address.find(':') == std::string::npos) return 0;
    return address.find('%') == std::string::npos ? 1 : 2;
  };
  for (auto& [interface, facts] : all) {
    std::stable_sort(facts.addresses.begin(), facts.addresses.end(),
                     [&](const auto& a, const auto& b) { return preference(a) < preference(b); });
  }
  if (addresses_known != nullptr)
    *addresses_known = tree.exists("/proc/net/fib_trie") || tree.exists("/proc/net/if_inet6");
  return all;
}

}  // namespace tombolo::topology
