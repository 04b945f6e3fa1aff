#include "transport/routing/candidates.h"

#include <algorithm>

#include "base/format.h"

namespace tombolo::transport {

namespace {

using topology::NicKind;

/// The carriers for which choose() has rules of their own. Any other carrier can go wherever TCP can, and is
/// preferred to it.
constexpr Carrier kWithOwnRules[] = {Carrier::kTcp, Carrier::kShm, Carrier::kRdma, Carrier::kUcx};

bool has_own_rules(Carrier carrier) {
  return std::ranges::find(kWithOwnRules, carrier) != std::end(kWithOwnRules);
}

bool is_loopback(const Offer& offer) {
  return offer.address.starts_with("127.") || offer.address == "::1";
}

bool is_ipv6(const Offer& offer) {
  return offer.address.find(':') != std::string::npos;
}

/// Whether the offer's NIC can carry TCP as a plain IP interface. A NIC whose kind is declared for emulation
/// is only of that kind.
bool usable_as_tcp(const Offer& offer) {
  return !offer.emulated || offer.kind == NicKind::kTcp;
}

std::uint64_t rate_of(const Offer& local, const Offer& peer) {
  return std::min(local.rate_bits_per_second, peer.rate_bits_per_second);
}

bool declared_unreachable(const Policy& policy, std::uint32_t left, std::uint32_t right) {
  return std::ranges::any_of(policy.unreachable, [&](const auto& pair) {
    auto first = fabric_hash(pair.first), second = fabric_hash(pair.second);
    return (first == left && second == right) || (first == right && second == left);
  });
}

std::string name_of(const Offer& offer) {
  return fmt::format("{} ({}{})", offer.nic.empty() ? offer.address : offer.nic,
                     topology::nic_kind_name(offer.kind), offer.emulated ? ", emulated" : "");
}

/// Why the two ends, if on one host, cannot use shared memory; empty where they can.
std::string why_no_shm(const Endpoint& local, const Endpoint& peer, const Policy& policy) {
  if (!allowed(policy, Carrier::kShm)) return "TOMBOLO_TRANSPORTS does not allow shm";
  if (!local.can(Carrier::kShm)) return "this process cannot use shm";
  if (!peer.can(Carrier::kShm)) return "the peer cannot use shm";
  return {};
}

/// Why a pair of one RDMA kind and fabric cannot use it; empty where it can.
std::string why_no_rdma(const Offer& local, const Offer& peer, const Policy& policy) {
  if (!allowed(policy, Carrier::kRdma)) return "TOMBOLO_TRANSPORTS does not allow rdma";
  if (!local.rdma)
    return local.rdma_problem.empty() ? "this process has no rdma on its NIC"
                                      : "no rdma here: " + local.rdma_problem;
  if (!peer.rdma) return "the peer has no rdma on its NIC (its log says why)";
  return {};
}

/// Why the two ends cannot use UCX; empty where they can.
std::string why_no_ucx(const Endpoint& local, const Endpoint& peer, const Policy& policy) {
  if (!allowed(policy, Carrier::kUcx)) return "TOMBOLO_TRANSPORTS does not allow ucx";
  if (!local.can(Carrier::kUcx)) return "this process cannot use ucx (its log says why)";
  if (!peer.can(Carrier::kUcx)) return "the peer cannot use ucx (its log says why)";
  return {};
}

/// The carriers without rules of their own that both ends can use.
std::vector<Carrier> carriers_without_rules(const Endpoint& local, const Endpoint& peer,
                                            const Policy& policy) {
  std::vector<Carrier> carriers;
  for (std::size_t value = 0; value < kMostCarriers; ++value) {
    const auto carrier = static_cast<Carrier>(value);
    if (!has_own_rules(carrier) && local.can(carrier) && peer.can(carrier) && allowed(policy, carrier))
      carriers.push_back(carrier);
  }
  return carriers;
}

Candidate judge(const Offer& local, const Offer& peer, const Situation& where, const Policy& policy) {
  Candidate candidate;
  bool both = local.kind == peer.kind && topology::is_rdma(local.kind);
  candidate.rate = rate_of(local, peer);
  candidate.same_host = where.same_host && is_loopback(local) && is_loopback(peer);
  candidate.kind = both ? local.kind : NicKind::kTcp;  // for a rejected pair: what it would have been
  if (is_ipv6(local) != is_ipv6(peer)) {
    candidate.rejected = "one has an IPv4, the other an IPv6 address";
  } else if (is_loopback(local) != is_loopback(peer)) {
    candidate.rejected = "only one is a loopback address";
  } else if (policy.only_kind && (local.kind != *policy.only_kind || peer.kind != *policy.only_kind)) {
    candidate.rejected = fmt::format("only {} may be used", topology::nic_kind_name(*policy.only_kind));
  } else if (declared_unreachable(policy, local.fabric, peer.fabric)) {
    candidate.rejected = "their fabrics are declared unreachable from each other";
  } else if (local.fabric != peer.fabric) {
    candidate.rejected = "different fabrics";
  } else if (both && local.emulated && peer.emulated) {
    candidate.reachable = true;
    return candidate;
  } else if (!usable_as_tcp(local) || !usable_as_tcp(peer)) {
    candidate.rejected = "different kinds";
  } else {
    bool any_rdma = topology::is_rdma(local.kind) || topology::is_rdma(peer.kind);
    if (both) candidate.caveat = why_no_rdma(local, peer, policy);
    if (candidate.same_host && !where.shm_caveat.empty()) candidate.caveat = where.shm_caveat;
    candidate.native = !any_rdma;
    candidate.kind = NicKind::kTcp;
  }
  candidate.reachable = candidate.rejected.empty();
  if (candidate.rejected.empty() && policy.require_rdma && where.same_cluster && !where.same_host) {
    candidate.rejected = candidate.caveat.empty() ? "inside a cluster rdma is required" : candidate.caveat;
  }
  return candidate;
}

/// Adds a candidate for each carrier that may go over a pair of NICs. `candidate` is the pair as this
/// program's own TCP would use it, and is added last, whether or not that is allowed.
void add_carriers(std::vector<Candidate>& all, Candidate candidate, const Ends& ends) {
  const Offer& mine = ends.local.offers[candidate.local];
  const Offer& theirs = ends.peer.offers[candidate.peer];
  const auto add_as = [&](Carrier carrier) {
    all.push_back(candidate);
    all.back().carrier = carrier;
  };
  const auto add_as_rdma = [&](Carrier carrier) {
    add_as(carrier);
    all.back().kind = mine.kind;
    all.back().native = true;
    all.back().rejected.clear();
  };
  if (candidate.same_host && candidate.rejected.empty() && ends.where.shm_caveat.empty())
    add_as(Carrier::kShm);
  const bool rdma_nics = candidate.reachable && mine.kind == theirs.kind && topology::is_rdma(mine.kind) &&
                         !mine.emulated && !theirs.emulated;
  const bool verbs = rdma_nics && why_no_rdma(mine, theirs, ends.policy).empty();
  if (verbs) add_as_rdma(Carrier::kRdma);
  // Where verbs work and still bring nothing through, the fabric is dead for UCX too; unasked it is not
  // tried.
  if (rdma_nics && ends.no_ucx.empty() && (!verbs || named(ends.policy, Carrier::kUcx)))
    add_as_rdma(Carrier::kUcx);
  if (candidate.rejected.empty())
    for (const Carrier carrier : ends.without_rules) add_as(carrier);
  if (candidate.rejected.empty() && !allowed(ends.policy, Carrier::kTcp)) {
    // What goes over plain NICs is this program's own TCP, unless that is out of the question.
    if (!rdma_nics && ends.no_ucx.empty()) add_as(Carrier::kUcx);
    candidate.rejected = "TOMBOLO_TRANSPORTS does not allow tcp" +
                         (candidate.caveat.empty() ? std::string() : ", and " + candidate.caveat);
    if (named(ends.policy, Carrier::kUcx) && !ends.no_ucx.empty())
      candidate.rejected += ", and " + ends.no_ucx;
  }
  all.push_back(std::move(candidate));
}

}  // namespace

int Candidate::tier() const {
  return (topology::is_rdma(kind) ? 0 : 3) + (!has_own_rules(carrier) ? 0 : carrier == Carrier::kUcx ? 2 : 1);
}

Ends::Ends(const Endpoint& local_end, const Endpoint& peer_end, const Policy& by)
    : local(local_end),
      peer(peer_end),
      policy(by),
      where{same_host(local, peer), same_cluster(local, peer), why_no_shm(local, peer, policy)},
      no_ucx(why_no_ucx(local, peer, policy)),
      without_rules(carriers_without_rules(local, peer, policy)) {}

std::vector<Candidate> candidates_of(const Ends& ends, const OnRoute& on_route) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < ends.local.offers.size(); ++i) {
    for (std::size_t j = 0; j < ends.peer.offers.size(); ++j) {
      const Offer &mine = ends.local.offers[i], &theirs = ends.peer.offers[j];
      Candidate candidate = judge(mine, theirs, ends.where, ends.policy);
      candidate.local = i;
      candidate.peer = j;
      candidate.standbys = static_cast<int>(mine.standby) + static_cast<int>(theirs.standby);
      candidate.on_route = !on_route || candidate.same_host || on_route(mine, theirs);
      add_carriers(all, std::move(candidate), ends);
    }
  }
  return all;
}

std::string explain(const Candidate& candidate, const Endpoint& local, const Endpoint& peer,
                    const std::string& why) {
  return fmt::format("{} -> {}: {}", name_of(local.offers[candidate.local]),
                     name_of(peer.offers[candidate.peer]), why);
}

}  // namespace tombolo::transport
