#include "transport/rdma/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.h"

namespace tombolo::transport::rdma {
namespace {

using Address = std::array<unsigned char, 16>;

/// The 16 bytes of a GID's text or of an IP address; IPv4 is mapped into IPv6 as RoCE does it.
Address address_bytes(const std::string& text) {
  Address bytes{};
  if (inet_pton(AF_INET, text.c_str(), &bytes[12]) == 1) {
    bytes[10] = bytes[11] = 0xff;
  } else if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) {
    bytes = {};
  }
  return bytes;
}

bool is_mapped(const Address& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](unsigned char byte) { return byte == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

bool is_link_local(const Address& bytes) {
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

/// Orders GIDs by preference: the smaller rank is better.
auto rank(const topology::Gid& gid, const Address& own) {
  const Address bytes = address_bytes(gid.value);
  return std::tuple(gid.type != "RoCE v2", bytes != own, !is_mapped(bytes), is_link_local(bytes), gid.index);
}

}  // namespace

const topology::Gid& choose_gid(std::span<const topology::Gid> table, topology::NicKind kind,
                                const std::string& address, int wanted) {
  if (wanted >= 0) {
    const auto found = std::ranges::find(table, wanted, &topology::Gid::index);
    if (found != table.end()) return *found;
    fail(Cause::kUnsupported,
         "TOMBOLO_RDMA_GID_INDEX={}: the port has no GID of that index; it has {} GIDs in use", wanted,
         table.size());
  }
  if (table.empty()) fail(Cause::kUnsupported, "the port has no GID in use; has its interface an address?");
  if (kind == topology::NicKind::kInfiniBand)
    return *std::ranges::min_element(table, {}, &topology::Gid::index);
  const Address own = address_bytes(address);
  return *std::ranges::min_element(
      table, [&](const auto& left, const auto& right) { return rank(left, own) < rank(right, own); });
}

}  // namespace tombolo::transport::rdma
