#include "transport/routing/router.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/listener.h"
#include "transport/bootstrap/local.h"
#include "transport/observe/report/reporting.h"
#include "transport/observe/traced.h"
#include "transport/routing/backends.h"
#include "transport/routing/failover_connection.h"
#include "transport/routing/ways.h"

namespace tombolo::transport {
namespace {

/// The first address that others can connect to: link-local ones need a scope that only this host knows.
std::string address_of(const topology::Nic& nic) {
  for (const auto& address : nic.addresses) {
    if (!address.starts_with("fe80:") && !address.starts_with("169.254.")) return address;
  }
  return {};
}

/// A hash that is equal in all processes that share this host's name and its loopback interface (its network
/// namespace).
std::uint32_t loopback_fabric(const std::string& host) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status {};
  if (stat("/proc/self/ns/net", &status) != 0) return 0;
  return fabric_hash(fmt::format("loopback {} {} {}", boot, status.st_ino, host));
}

std::vector<Offer> offers_of(const topology::Host& host, const std::vector<std::string>& standby,
                             const Log& log) {
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
    offers.push_back({nic.name,
                      nic.kind,
                      fabric_hash(nic.fabric),
                      address,
                      0,
                      nic.rate_bits_per_second,
                      nic.emulated,
                      false,
                      std::ranges::find(standby, nic.name) != standby.end(),
                      {}});
  }
  std::ranges::stable_sort(offers, [](const Offer& left, const Offer& right) {
    return std::tuple(left.standby, left.kind, right.rate_bits_per_second) <
           std::tuple(right.standby, right.kind, left.rate_bits_per_second);
  });
  // Processes of one host reach each other over loopback, even where the host has no NIC at all. Hosts whose
  // own addresses are loopback addresses (an emulation) use only those.
  if (std::uint32_t fabric = loopback_fabric(host.name); !has_loopback && fabric != 0) {
    offers.push_back({"lo", topology::NicKind::kTcp, fabric, "127.0.0.1", 0, 0, false, false, false, {}});
  }
  return offers;
}

/// Hosts whose clusters have no names count as one cluster, so that nothing would be encrypted. Said once per
/// process: every communicator has a router.
void warn_where_no_cluster_has_a_name(const RouterOptions& options) {
  static std::atomic<bool> told{false};
  if (options.tls.use != TlsUse::kBetweenClusters || !options.host.cluster.empty()) return;
  if (!options.log.enabled(LogLevel::kWarning) || told.exchange(true)) return;
  options.log.warning(
      "TOMBOLO_TLS=between-clusters: the cluster of host {} has no name, so its connections with other hosts "
      "without one are not encrypted. Give every host its \"cluster\" in a cluster file and name that file "
      "in "
      "TOMBOLO_CLUSTER, or set TOMBOLO_TLS=on",
      options.host.name);
}

}  // namespace

struct Router::State {
  RouterOptions options;
  std::shared_ptr<const bootstrap::Local> local;
  Endpoint self;  // without ports and process
  std::shared_ptr<const Ways> ways;
  std::shared_ptr<bootstrap::Acceptor> acceptor;  // from the first need on

  const std::shared_ptr<bootstrap::Acceptor>& listening() {
    if (!acceptor) {
      auto helpers = options.helpers ? options.helpers : bootstrap::ProcessHelpers::of_process();
      acceptor = std::make_shared<bootstrap::Acceptor>(std::move(helpers), local, self);
    }
    acceptor->check_process();
    return acceptor;
  }
  LegMaker leg_maker() { return {listening(), ways, options.return_after, options.gpu_staging}; }
};

Router::Router(RouterOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  if (const int traffic_class = state_->options.traffic_class; traffic_class != -1) {
    if (traffic_class < 0 || traffic_class > 255)
      fail(Cause::kInvalidUsage, "traffic class {}: expected 0 to 255, or -1 for none", traffic_class);
    state_->options.rdma.traffic_class = traffic_class;
  }
  const RouterOptions& given = state_->options;
  auto local = std::make_shared<bootstrap::Local>();
  local->host = given.host.name;
  local->secret = given.secret;
  local->secret_hint = given.secret_hint;
  local->cluster = fabric_hash(given.host.cluster);
  local->idle_timeout = given.tcp.idle_timeout > Duration::zero()
                            ? given.tcp.idle_timeout
                            : TcpOptions::from_environment().idle_timeout;
  local->traffic_class = given.traffic_class;
  local->overlong = given.overlong;
  warn_where_no_cluster_has_a_name(given);
  if (given.tls.use != TlsUse::kOff)
    local->tls = std::make_shared<sockets::Tls>(given.tls, given.secret, given.secret_hint);
  Backends backends = make_backends(given, local->idle_timeout);
  local->backends = std::move(backends.usable);
  local->meters = given.meters ? given.meters : Meters::of_process();
  if (!given.meters) report::start(given.host.name, given.log);
  local->failover = given.failover;
  local->log = given.log;
  local->clock = given.clock;
  state_->local = std::move(local);

  Endpoint& self = state_->self;
  self.host = given.host.name;
  self.cluster = given.host.cluster;
  self.offers = offers_of(given.host, given.standby, given.log);
  for (Offer& offer : self.offers) {
    if (!topology::is_rdma(offer.kind) || offer.emulated) continue;
    offer.rdma_problem = backends.rdma_problems.at(offer.nic);
    offer.rdma = offer.rdma_problem.empty();
  }
  for (const auto& backend : state_->local->backends)
    self.carriers |= static_cast<std::uint8_t>(1U << static_cast<int>(backend->carrier()));
  self.set_ids();
  state_->ways = std::make_shared<Ways>(state_->local, self, given.policy);
}

Router::~Router() = default;

std::span<const Offer> Router::offers() const noexcept {
  return state_->self.offers;
}

const RouterOptions& Router::options() const noexcept {
  return state_->options;
}

std::unique_ptr<Listener> Router::listen() {
  if (state_->self.offers.empty()) {
    fail(Cause::kUnsupported, "listen on host {}: none of its {} NICs is usable and has an address",
         state_->self.host, state_->options.host.nics.size());
  }
  return traced(failing_over(std::make_unique<bootstrap::AuthenticatingListener>(state_->listening()),
                             state_->leg_maker()),
                state_->local->meters->tracer());
}

std::unique_ptr<Connecting> Router::connect(const Endpoint& peer, const ConnectOptions& options) {
  std::vector<bootstrap::Way> ways = state_->ways->to(peer, options);
  // Where there is no other way there is nothing to take the messages on.
  if (ways.size() == 1) ways.front().route.resumable = false;
  auto best = std::make_unique<BestConnecting>(state_->listening(), std::move(ways));
  return traced(failing_over(std::move(best), state_->leg_maker(), peer, options),
                state_->local->meters->tracer());
}

}  // namespace tombolo::transport
