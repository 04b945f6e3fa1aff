// The choice of a pair of NICs: a pure function of what the two ends offer and of the policy.
#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "transport/router.h"

namespace tombolo::transport {
namespace {

using topology::NicKind;

constexpr std::size_t kMostReasons = 6;

bool is_loopback(const Offer& offer) {
  return offer.address.starts_with("127.") || offer.address == "::1";
}

bool is_ipv6(const Offer& offer) {
  return offer.address.find(':') != std::string::npos;
}

std::string name_of(const Offer& offer) {
  return fmt::format("{} ({}{})", offer.nic.empty() ? offer.address : offer.nic,
                     topology::nic_kind_name(offer.kind), offer.emulated ? ", emulated" : "");
}

/// Whether bytes can go over TCP between the two as plain IP interfaces. A NIC whose kind is declared for
/// emulation is only that kind.
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

/// One pair of offers, judged.
struct Candidate {
  std::size_t local = 0, peer = 0;
  NicKind kind = NicKind::kTcp;  // what it is used as
  bool same_host = false;        // a loopback path inside one host
  std::uint64_t rate = 0;
  bool native = true;    // not an RDMA NIC used as TCP
  std::string rejected;  // why not; empty = allowed
  std::string caveat;    // why not as something better

  /// Smaller is better. Rates are unknown as 0, which sorts last.
  auto rank() const {
    return std::tuple(!same_host, static_cast<int>(kind), UINT64_MAX - rate, !native, local + peer, local);
  }
};

struct Situation {
  bool same_host = false, same_cluster = false;
};

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
    return candidate;
  } else if (!usable_as_tcp(local) || !usable_as_tcp(peer)) {
    candidate.rejected = "different kinds";
  } else {
    bool any_rdma = topology::is_rdma(local.kind) || topology::is_rdma(peer.kind);
    if (both) candidate.caveat = "no rdma transport in this build";
    candidate.native = !any_rdma;
    candidate.kind = NicKind::kTcp;
  }
  if (candidate.rejected.empty() && policy.require_rdma && where.same_cluster && !where.same_host) {
    candidate.rejected = candidate.caveat.empty() ? "inside a cluster rdma is required" : candidate.caveat;
  }
  return candidate;
}

std::string explain(const Candidate& candidate, const Endpoint& local, const Endpoint& peer,
                    const std::string& why) {
  return fmt::format("{} -> {}: {}", name_of(local.offers[candidate.local]),
                     name_of(peer.offers[candidate.peer]), why);
}

std::string join(const std::vector<std::string>& reasons, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(reasons.size(), most); ++i) {
    text += (i == 0 ? "" : "; ") + reasons[i];
  }
  if (reasons.size() > most) text += fmt::format("; and {} more", reasons.size() - most);
  return text;
}

}  // namespace

Choice choose(const Endpoint& local, const Endpoint& peer, const Policy& policy) {
  std::string peer_name = peer.host.empty() ? "the peer" : "host " + peer.host;
  if (!policy.transports.empty() && std::ranges::find(policy.transports, "tcp") == policy.transports.end()) {
    fail(Cause::kUnsupported,
         "no way to {}: TOMBOLO_TRANSPORTS does not allow tcp, the only transport in this build", peer_name);
  }
  Situation where{same_host(local, peer), same_cluster(local, peer)};
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < local.offers.size(); ++i) {
    for (std::size_t j = 0; j < peer.offers.size(); ++j) {
      all.push_back(judge(local.offers[i], peer.offers[j], where, policy));
      all.back().local = i;
      all.back().peer = j;
    }
  }
  const Candidate* best = nullptr;
  for (const Candidate& candidate : all) {
    if (candidate.rejected.empty() && (best == nullptr || candidate.rank() < best->rank())) best = &candidate;
  }
  if (best == nullptr) {
    std::vector<std::string> reasons;
    for (const Candidate& candidate : all)
      reasons.push_back(explain(candidate, local, peer, candidate.rejected));
    fail(Cause::kUnsupported, "no way from host {} to {}: {}", local.host.empty() ? "?" : local.host,
         peer_name,
         all.empty()
             ? fmt::format("{} NICs with an address here, {} there", local.offers.size(), peer.offers.size())
             : join(reasons, all.size()));
  }
  Choice choice{best->local, best->peer, {}};
  if (best->same_host) {
    choice.reason = "same host";
  } else if (topology::is_rdma(best->kind)) {
    choice.reason = fmt::format("both on one {} fabric", topology::nic_kind_name(best->kind));
  } else {
    choice.reason = where.same_host ? "tcp inside one host" : "tcp is the best that both share";
  }
  std::vector<std::string> better;
  for (const Candidate& candidate : all) {
    const Offer& mine = local.offers[candidate.local];
    const Offer& theirs = peer.offers[candidate.peer];
    if (&candidate == best) {
      if (!candidate.caveat.empty()) better.push_back(explain(candidate, local, peer, candidate.caveat));
      continue;
    }
    // "Better": of a kind, were it allowed, above the chosen one's; or of that kind and faster. Nobody
    // expects an RDMA NIC to talk to a plain one, so those pairs only make noise.
    NicKind could_be = std::max(mine.kind, theirs.kind);
    if (best->same_host || topology::is_rdma(mine.kind) != topology::is_rdma(theirs.kind)) continue;
    bool above = could_be < best->kind ||
                 (could_be == best->kind && candidate.rate > best->rate && !candidate.rejected.empty());
    const std::string& why = candidate.rejected.empty() ? candidate.caveat : candidate.rejected;
    if (above && !why.empty()) better.push_back(explain(candidate, local, peer, why));
  }
  if (!better.empty()) choice.reason += "; not taken: " + join(better, kMostReasons);
  return choice;
}

}  // namespace tombolo::transport
