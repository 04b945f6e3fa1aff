#include "collectives/rendezvous/rendezvous_address.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

namespace ip = asio::ip;

/// Parses an address in digits; 0.0.0.0 where the text is none.
ip::address parse_address(const std::string& text) {
  asio::error_code error;
  const ip::address address = ip::make_address(text, error);
  return error ? ip::address() : address;
}

bool is_loopback_address(const std::string& text) {
  return parse_address(text).is_loopback();
}

bool is_link_local(const std::string& text) {
  const ip::address address = parse_address(text);
  if (address.is_v6()) return address.to_v6().is_link_local();
  return (address.to_v4().to_uint() & 0xffff0000U) == 0xa9fe0000U;  // 169.254.0.0/16
}

}  // namespace

std::string rendezvous_address(const topology::Host& host) {
  struct Candidate {
    int rank;  // lower is reached by more
    const std::string* address;
  };
  std::vector<Candidate> candidates;
  for (const topology::Nic& nic : host.nics) {
    if (!nic.usable) continue;
    const auto address = std::find_if(nic.addresses.begin(), nic.addresses.end(),
                                      [](const std::string& one) { return !is_link_local(one); });
    if (address == nic.addresses.end()) continue;
    int rank = is_loopback_address(*address) ? 4 : 0;
    rank += nic.fabric.empty() ? 0 : 2;
    rank += nic.kind == topology::NicKind::kTcp ? 0 : 1;
    candidates.push_back({rank, &*address});
  }
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return best == candidates.end() ? "127.0.0.1" : *best->address;
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || is_loopback_address(address);
}

ListenPlan plan_listening(const std::string& address, const std::vector<std::string>& resolved,
                          const std::vector<std::string>& own) {
  ListenPlan plan;
  if (is_loopback(address)) {
    std::copy_if(resolved.begin(), resolved.end(), std::back_inserter(plan.addresses), is_loopback_address);
    // Others may know "localhost" as 127.0.0.1 only.
    std::stable_partition(plan.addresses.begin(), plan.addresses.end(),
                          [](const std::string& one) { return parse_address(one).is_v4(); });
    if (!plan.addresses.empty()) return plan;
  }
  plan.addresses = {"::", "0.0.0.0"};
  plan.everywhere = true;
  plan.of_this_host = std::any_of(resolved.begin(), resolved.end(), [&](const std::string& one) {
    return is_loopback_address(one) || std::find(own.begin(), own.end(), one) != own.end();
  });
  return plan;
}

std::vector<std::string> resolve_addresses(const std::string& name) {
  asio::io_context io;
  asio::error_code error;
  std::vector<std::string> addresses;
  for (const auto& entry : ip::tcp::resolver(io).resolve(name, "", error)) {
    addresses.push_back(entry.endpoint().address().to_string());
  }
  if (addresses.empty()) fail(Cause::kSystem, "cannot resolve '{}': {}", name, error.message());
  return addresses;
}

std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (one->ifa_addr->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      addresses.push_back(ip::address_v4(ntohl(v4->sin_addr.s_addr)).to_string());
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr,
                  bytes.size());
      addresses.push_back(ip::address_v6(bytes).to_string());
    }
  }
  return addresses;
}

}  // namespace tombolo::collectives
