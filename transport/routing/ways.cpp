#include "transport/routing/ways.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "transport/sockets/socket.h"

namespace tombolo::transport {
namespace {

/// Whether the kernel would send to the peer's address by this NIC; false where there is no route.
bool leaves_by(const Offer& local, const Offer& peer) {
  const auto source = sockets::source_towards(sockets::SocketAddress::parse(peer.address, peer.port));
  return source && sockets::same_address(*source, sockets::SocketAddress::parse(local.address, 0));
}

}  // namespace

std::vector<bootstrap::Way> Ways::to(const Endpoint& peer, const ConnectOptions& options,
                                     const std::vector<NicPairName>& without) const {
  if (!without.empty()) {
    Endpoint rest = self_, peers_rest = peer;
    std::erase_if(rest.offers, [&](const Offer& offer) {
      return std::ranges::find(without, offer.nic, &NicPairName::nic) != without.end();
    });
    std::erase_if(peers_rest.offers, [&](const Offer& offer) {
      return std::ranges::find(without, offer.address, &NicPairName::peer_address) != without.end();
    });
    for (const Endpoint* there : {&std::as_const(peers_rest), &peer}) {
      try {
        return among(rest, *there, options);
      } catch (const Error&) {
        // They are all that there is, and may come back.
      }
    }
  }
  return among(self_, peer, options);
}

std::vector<bootstrap::Way> Ways::among(const Endpoint& self, const Endpoint& peer,
                                        const ConnectOptions& options) const {
  const bootstrap::Local& local = *local_;
  const std::uint32_t cluster = peer.cluster_id != 0 ? peer.cluster_id : fabric_hash(peer.cluster);
  std::vector<bootstrap::Way> ways;
  std::string not_used;
  for (Choice& choice : choose(self, peer, policy_, leaves_by)) {
    if (!local.may_carry(choice.carrier, cluster)) {
      not_used += fmt::format(
          "; {} is not used: TOMBOLO_TLS={} has what leaves the cluster encrypted, which only "
          "tcp is",
          carrier_name(choice.carrier), name_of(local.tls_use()));
      continue;
    }
    const auto& mine = self.offers;
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
    way.route.resumable =
        local.failover && local.backend_of(choice.carrier)->resumes() == Backend::Resumes::kAlways;
    if (way.tls) {
      way.route.transport += "+tls";
      way.route.reason +=
          fmt::format("; {} (TOMBOLO_TLS={})", local.tls->description(), name_of(local.tls_use()));
    }
    ways.push_back(std::move(way));
  }
  if (ways.empty()) {
    fail(Cause::kUnsupported, "no way to {}: {}", peer.host.empty() ? "the peer" : "host " + peer.host,
         std::string_view(not_used).substr(2));
  }
  return ways;
}

BestConnecting::BestConnecting(std::shared_ptr<bootstrap::Acceptor> acceptor,
                               std::vector<bootstrap::Way> ways)
    : acceptor_(std::move(acceptor)), ways_(std::move(ways)) {
  start();
}

std::unique_ptr<Connection> BestConnecting::poll() {
  for (;;) {
    try {
      return connecting_->poll();
    } catch (const Error& error) {
      turn_to_next(error);
    }
  }
}

void BestConnecting::append_wait_handles(std::vector<pollfd>& handles) const {
  connecting_->append_wait_handles(handles);
}

void BestConnecting::start() {
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

void BestConnecting::turn_to_next(const Error& error, bool start_it) {
  // Where the deadline has passed there is no time for another attempt.
  if (at_ + 1 == ways_.size() || error.cause() == Cause::kTimeout)
    throw Error(error.cause(), error.what() + tried_);
  bootstrap::Way& next = ways_[++at_];
  const bootstrap::Way& last = ways_[at_ - 1];
  if (last.route.resumable)
    for (const auto& [here, there] : last.nic_pairs) left_.push_back({here.nic, there.address});
  if (!left_.empty())
    next.route.resumable =
        acceptor_->local()->backend_of(next.carrier)->resumes() != Backend::Resumes::kNever;
  tried_ += fmt::format("; {} was tried first: {}", last.route.transport, error.what());
  next.route.reason += tried_;
  if (start_it) start();
}

}  // namespace tombolo::transport
