#include "transport/router.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/units.h"
#include "transport/tcp/connecting.h"
#include "transport/tcp/listener.h"
#include "transport/tcp/local.h"

namespace tombolo::transport {
namespace {

/// The first address that others can connect to: link-local ones need a scope that only this host knows.
std::string address_of(const topology::Nic& nic) {
  for (const auto& address : nic.addresses) {
    if (!address.starts_with("fe80:") && !address.starts_with("169.254.")) return address;
  }
  return {};
}

/// Equal in all processes that share this host's name and its loopback interface (its network namespace).
std::uint32_t loopback_fabric(const std::string& host) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status {};
  if (stat("/proc/self/ns/net", &status) != 0) return 0;
  return fabric_hash(fmt::format("loopback {} {} {}", boot, status.st_ino, host));
}

std::vector<Offer> offers_of(const topology::Host& host, const Log& log) {
  std::vector<Offer> offers;
  bool has_loopback = false;
  for (const auto& nic : host.nics) {
    std::string address = address_of(nic);
    if (!nic.usable || address.empty()) {
      log.trace("NIC {} of host {} is not used: {}", nic.name, host.name,
                nic.usable ? "it has no address that a peer could connect to" : nic.reason);
      continue;
    }
    has_loopback |= address.starts_with("127.") || address == "::1";
    offers.push_back(
        {nic.name, nic.kind, fabric_hash(nic.fabric), address, 0, nic.rate_bits_per_second, nic.emulated});
  }
  std::ranges::stable_sort(offers, [](const Offer& left, const Offer& right) {
    return std::pair(left.kind, right.rate_bits_per_second) <
           std::pair(right.kind, left.rate_bits_per_second);
  });
  // Processes of one host reach each other over loopback, also where the host has no NIC at all. Hosts that
  // are themselves loopback addresses (an emulation) keep to those.
  if (std::uint32_t fabric = loopback_fabric(host.name); !has_loopback && fabric != 0) {
    offers.push_back({"lo", topology::NicKind::kTcp, fabric, "127.0.0.1", 0, 0, false});
  }
  return offers;
}

}  // namespace

struct Router::State {
  RouterOptions options;
  std::shared_ptr<const tcp::Local> local;
  Endpoint self;  // without ports
};

Router::Router(RouterOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  const RouterOptions& given = state_->options;
  auto local = std::make_shared<tcp::Local>();
  local->host = given.host.name;
  local->secret = given.secret;
  local->options = given.tcp;
  if (local->options.idle_timeout <= Duration::zero()) {
    local->options.idle_timeout = TcpOptions::from_environment().idle_timeout;
  }
  if (local->options.streams < 0 || local->options.streams > tcp::kMostStreams ||
      local->options.chunk_bytes > tcp::kLongestChunk) {
    fail(Cause::kInvalidUsage,
         "TCP options: {} streams (0 to {} are allowed), chunks of {} bytes (at most {})",
         local->options.streams, tcp::kMostStreams, local->options.chunk_bytes, tcp::kLongestChunk);
  }
  for (const NicLimit& limit : given.limits) {
    if (!(limit.bytes_per_second > 0)) {
      fail(Cause::kInvalidUsage, "limit of NIC {}: {} bytes/s, expected more than 0", limit.nic,
           limit.bytes_per_second);
    }
    local->limits[limit.nic] = std::make_shared<tcp::NicRateLimit>(limit.bytes_per_second);
  }
  local->log = given.log;
  local->clock = given.clock;
  state_->local = std::move(local);

  Endpoint& self = state_->self;
  self.host = given.host.name;
  self.cluster = given.host.cluster;
  self.offers = offers_of(given.host, given.log);
  self.set_ids();
  random_bytes(std::as_writable_bytes(std::span(&self.process, 1)));
}

Router::~Router() = default;

const RouterOptions& Router::options() const noexcept {
  return state_->options;
}

std::unique_ptr<Listener> Router::listen() {
  if (state_->self.offers.empty()) {
    fail(Cause::kUnsupported, "listen on host {}: none of its {} NICs is usable and has an address",
         state_->self.host, state_->options.host.nics.size());
  }
  return std::make_unique<tcp::TcpListener>(state_->local, state_->self);
}

std::unique_ptr<Connecting> Router::connect(const Endpoint& peer, const ConnectOptions& options) {
  const RouterOptions& given = state_->options;
  Choice choice = choose(state_->self, peer, given.policy);
  const Offer& from = state_->self.offers[choice.local];
  const Offer& to = peer.offers[choice.peer];
  Route route;
  route.transport = "tcp";
  route.kind = from.kind;
  route.local_nic = from.nic;
  route.peer_nic = to.nic;
  route.peer_host = peer.host;
  route.peer_address = to.address;
  route.emulated = from.emulated && to.emulated;
  route.reason = choice.reason;
  given.log.info("to {}{}{}: tcp over {}{}, {} ({}) -> {} ({}): {}", options.peer_name,
                 options.peer_name.empty() ? "" : " on ", peer.host.empty() ? "a peer" : peer.host,
                 topology::nic_kind_name(route.kind), route.emulated ? " (emulated)" : "", from.nic,
                 from.address, to.nic.empty() ? "?" : to.nic, to.address, choice.reason);
  return std::make_unique<tcp::TcpConnecting>(state_->local, from, to, std::move(route), options);
}

}  // namespace tombolo::transport
