#include "collectives/engine/mesh.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::collectives {
namespace {

// A connection's label: communicator, traffic, and the rank that connects.
constexpr int kRankBits = 24;
constexpr std::uint64_t kRankMask = (std::uint64_t{1} << kRankBits) - 1;

std::uint64_t make_label(std::uint32_t id, Traffic traffic, int rank) noexcept {
  return std::uint64_t{id} << 32 | static_cast<std::uint64_t>(traffic) << kRankBits |
         static_cast<std::uint64_t>(rank);
}

}  // namespace

Mesh::Mesh(std::shared_ptr<transport::Router> router, int rank, std::uint32_t id, Duration deadline)
    : router_(std::move(router)), rank_(rank), id_(id), deadline_(deadline), listener_(router_->listen()) {}

void Mesh::set_peers(std::vector<Peer> peers) {
  peers_ = std::move(peers);
  for (auto& connections : connections_) connections.resize(peers_.size());
}

transport::Connection* Mesh::find(Traffic traffic, int peer) const noexcept {
  return entry(traffic, peer).connection.get();
}

bool Mesh::awaits(int peer) const noexcept {
  return std::ranges::any_of(kAllTraffic, [&](Traffic traffic) {
    const PeerConnection& one = entry(traffic, peer);
    return one.wanted && !one.connection;
  });
}

transport::Connection* Mesh::open(Traffic traffic, int peer) {
  PeerConnection& one = entry(traffic, peer);
  if (one.connection || one.wanted || closed_) return one.connection.get();
  one.wanted = router_->options().clock->now();
  ++missing_;
  if (rank_ > peer) return nullptr;  // the peer connects
  begin_to_connect(traffic, peer);
  opening_.emplace_back(traffic, peer);
  return nullptr;
}

void Mesh::begin_to_connect(Traffic traffic, int peer) {
  PeerConnection& one = entry(traffic, peer);
  transport::ConnectOptions connect;
  connect.label = make_label(id_, traffic, rank_);
  connect.deadline = left_since(*one.wanted);
  connect.peer_name = fmt::format("rank {}", peer);
  one.connecting = router_->connect(peers_[static_cast<std::size_t>(peer)].endpoint, connect);
}

std::unique_ptr<transport::Connection> Mesh::poll_connecting(Traffic traffic, int peer) {
  PeerConnection& one = entry(traffic, peer);
  try {
    return one.connecting->poll();
  } catch (const Error& error) {
    // A longer deadline may have been set since it began.
    if (error.cause() != Cause::kTimeout || left_since(*one.wanted) <= Duration::zero()) throw;
    begin_to_connect(traffic, peer);
    return nullptr;
  }
}

bool Mesh::progress() {
  if (closed_) return false;
  bool came = false;
  for (std::size_t i = 0; i < opening_.size();) {
    const auto [traffic, peer] = opening_[i];
    if (auto connection = poll_connecting(traffic, peer)) {
      PeerConnection& one = entry(traffic, peer);
      one.connection = std::move(connection);
      one.connecting.reset();
      opening_.erase(opening_.begin() + static_cast<std::ptrdiff_t>(i));
      --missing_;
      came = true;
    } else {
      ++i;
    }
  }
  while (auto connection = listener_->accept()) {
    const std::uint64_t label = connection->label();
    const auto traffic = static_cast<std::uint64_t>((label >> kRankBits) & 0xff);
    const auto peer = static_cast<std::size_t>(label & kRankMask);
    // Whoever connects knows the secret, but may belong to another communicator, or be faulty.
    if (label >> 32 != id_ || traffic >= kAllTraffic.size() || peer >= peers_.size() ||
        static_cast<int>(peer) >= rank_) {
      router_->options().log.warning(
          "rank {}: dropped a connection with label {:#x} that none of its peers makes", rank_, label);
      continue;
    }
    PeerConnection& one = entry(static_cast<Traffic>(traffic), static_cast<int>(peer));
    if (one.connection) {
      router_->options().log.warning("rank {}: dropped a second connection from rank {}", rank_, peer);
      continue;
    }
    one.connection = std::move(connection);
    if (one.wanted) --missing_;
    came = true;
  }
  return came;
}

void Mesh::check_awaited() const {
  if (missing_ == 0 || closed_) return;
  for (const Traffic traffic : kAllTraffic) {
    for (int peer = 0; peer < rank_; ++peer) {
      const PeerConnection& one = entry(traffic, peer);
      if (one.connection || !one.wanted || left_since(*one.wanted) > Duration::zero()) continue;
      fail(Cause::kTimeout, "{} has not connected to rank {} within {} (did its process die?)",
           describe(traffic, peer), rank_, format_seconds(to_seconds(deadline_)));
    }
  }
}

void Mesh::append_wait_handles(std::vector<pollfd>& handles) const {
  if (closed_) return;
  for (const auto& [traffic, peer] : opening_) entry(traffic, peer).connecting->append_wait_handles(handles);
  listener_->append_wait_handles(handles);
}

void Mesh::close_all() noexcept {
  closed_ = true;
  opening_.clear();
  for (auto& connections : connections_) {
    for (auto& one : connections) {
      one.connecting.reset();
      one.connection.reset();
    }
  }
}

std::string Mesh::describe(Traffic traffic, int peer) const {
  const Peer& named = peers_[static_cast<std::size_t>(peer)];
  std::string text = fmt::format("rank {}{} on host {}", peer, named.also, named.host);
  if (const auto* connection = find(traffic, peer)) {
    const transport::Route& route = connection->route();
    text += fmt::format(" over {} -> {} ({})", route.local_nic, route.peer_nic, route.peer_address);
  }
  return text;
}

}  // namespace tombolo::collectives
