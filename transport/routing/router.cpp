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
#include "transport/bootstrap/way.h"
#include "transport/observe/report/reporting.h"
#include "transport/observe/traced.h"
#include "transport/routing/backends.h"

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

/// Whether the kernel would send to the peer's address by this NIC; false where there is no route.
bool leaves_by(const Offer& local, const Offer& peer) {
  const auto source = sockets::source_towards(sockets::SocketAddress::parse(peer.address, peer.port));
  return source && sockets::same_address(*source, sockets::SocketAddress::parse(local.address, 0));
}

/// Tries one way after the other, best first, and says why it left one for the next.
class BestConnecting final : public Connecting {
 public:
  BestConnecting(std::shared_ptr<bootstrap::Acceptor> acceptor, std::vector<bootstrap::Way> ways)
      : acceptor_(std::move(acceptor)), ways_(std::move(ways)) {
    start();
  }

  std::unique_ptr<Connection> poll() override {
    for (;;) {
      try {
        return connecting_->poll();
      } catch (const Error& error) {
        turn_to_next(error);
      }
    }
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    connecting_->append_wait_handles(handles);
  }

 private:
  void start() {
    const bootstrap::Local& local = *acceptor_->local();
    for (;;) {
      const bootstrap::Way& way = ways_[at_];
      const Route& route = way.route;
      const std::string& peer = way.options.peer_name;
      local.log.info("to {}{}{}: {}{}, {} ({}) -> {} ({}): {}", peer, peer.empty() ? "" : " on ",
                     route.peer_host.empty() ? "a peer" : route.peer_host, route.transport, as_kind(route),
                     route.local_nic, way.from.address, route.peer_nic.empty() ? "?" : route.peer_nic,
                     way.to.address, route.reason);
      try {
        connecting_ = local.backend_of(way.carrier)->connect(acceptor_, way);
        return;
      } catch (const Error& error) {
        turn_to_next(error, false);
      }
    }
  }

  void turn_to_next(const Error& error, bool start_it = true) {
    // Where the deadline has passed there is no time for another attempt.
    if (at_ + 1 == ways_.size() || error.cause() == Cause::kTimeout)
      throw Error(error.cause(), error.what() + tried_);
    bootstrap::Way& next = ways_[++at_];
    tried_ += fmt::format("; {} was tried first: {}", ways_[at_ - 1].route.transport, error.what());
    next.route.reason += tried_;
    if (start_it) start();
  }

  std::shared_ptr<bootstrap::Acceptor> acceptor_;
  std::vector<bootstrap::Way> ways_;
  std::size_t at_ = 0;
  std::string tried_;  // all that failed
  std::unique_ptr<Connecting> connecting_;
};

}  // namespace

struct Router::State {
  RouterOptions options;
  std::shared_ptr<const bootstrap::Local> local;
  Endpoint self;                                  // without ports and process
  std::shared_ptr<bootstrap::Acceptor> acceptor;  // from the first need on

  const std::shared_ptr<bootstrap::Acceptor>& listening() {
    if (!acceptor) {
      auto helpers = options.helpers ? options.helpers : bootstrap::ProcessHelpers::of_process();
      acceptor = std::make_shared<bootstrap::Acceptor>(std::move(helpers), local, self);
    }
    acceptor->check_process();
    return acceptor;
  }
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
  return traced(std::make_unique<bootstrap::AuthenticatingListener>(state_->listening()),
                state_->local->meters->tracer());
}

std::unique_ptr<Connecting> Router::connect(const Endpoint& peer, const ConnectOptions& options) {
  const RouterOptions& given = state_->options;
  const bootstrap::Local& local = *state_->local;
  const std::uint32_t cluster = peer.cluster_id != 0 ? peer.cluster_id : fabric_hash(peer.cluster);
  std::vector<bootstrap::Way> ways;
  std::string not_used;
  for (Choice& choice : choose(state_->self, peer, given.policy, leaves_by)) {
    if (!local.may_carry(choice.carrier, cluster)) {
      not_used += fmt::format(
          "; {} is not used: TOMBOLO_TLS={} has what leaves the cluster encrypted, which only "
          "tcp is",
          carrier_name(choice.carrier), name_of(given.tls.use));
      continue;
    }
    const auto& mine = state_->self.offers;
    bootstrap::Way way{mine[choice.channel_local],
                       peer.offers[choice.channel_peer],
                       {},
                       options,
                       peer.listener,
                       local.wants_tls(choice.carrier, cluster),
                       choice.carrier,
                       {},
                       peer.process};
    if (choice.carrier != Carrier::kShm) {
      way.nic_pairs.emplace_back(mine[choice.local], peer.offers[choice.peer]);
      for (const auto& [here, there] : choice.more)
        way.nic_pairs.emplace_back(mine[here], peer.offers[there]);
    }
    way.route.transport = carrier_name(choice.carrier);
    way.route.kind = choice.kind;
    way.route.local_nic = mine[choice.local].nic;
    way.route.peer_nic = peer.offers[choice.peer].nic;
    way.route.peer_host = peer.host;
    way.route.peer_address = peer.offers[choice.peer].address;
    way.route.emulated = way.from.emulated && way.to.emulated;
    way.route.reason = std::move(choice.reason) + not_used;
    if (way.tls) {
      way.route.transport += "+tls";
      way.route.reason +=
          fmt::format("; {} (TOMBOLO_TLS={})", local.tls->description(), name_of(given.tls.use));
    }
    ways.push_back(std::move(way));
  }
  if (ways.empty()) {
    fail(Cause::kUnsupported, "no way to {}: {}", peer.host.empty() ? "the peer" : "host " + peer.host,
         std::string_view(not_used).substr(2));
  }
  return traced(std::make_unique<BestConnecting>(state_->listening(), std::move(ways)),
                state_->local->meters->tracer());
}

}  // namespace tombolo::transport
