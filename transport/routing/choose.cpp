// The choice of a pair of NICs: a pure function of what the two ends offer and of the policy.
#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "transport/routing/router.h"

namespace tombolo::transport {

namespace {

using topology::NicKind;

constexpr std::size_t kMostReasons = 6;

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

std::string name_of(const Offer& offer) {
  return fmt::format("{} ({}{})", offer.nic.empty() ? offer.address : offer.nic,
                     topology::nic_kind_name(offer.kind), offer.emulated ? ", emulated" : "");
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

/// One pair of offers, judged as a way for one carrier.
struct Candidate {
  std::size_t local = 0, peer = 0;
  Carrier carrier = Carrier::kTcp;
  NicKind kind = NicKind::kTcp;  // what it is used as
  bool same_host = false;        // a loopback path inside one host
  std::uint64_t rate = 0;
  int standbys = 0;        // how many of the two only stand by
  bool native = true;      // not an RDMA NIC used as TCP
  bool on_route = true;    // the kernel would send to the peer's address by this NIC
  bool reachable = false;  // bytes could go over TCP between the two, whatever the policy says
  std::string rejected;    // why not; empty = allowed
  std::string caveat;      // why it is not used as something better

  /// The order of preference: smaller is better. Unknown rates are 0, which sorts last. Whether the kernel
  /// would send by the NIC counts before its rate, because a fast NIC without a way to the peer's network is
  /// of no use. RDMA needs no route of the kernel's, so there it counts first which NICs only stand by.
  auto rank() const {
    return std::tuple(!same_host, carrier != Carrier::kShm, tier(), topology::is_rdma(kind) ? standbys : 0,
                      static_cast<int>(kind), !on_route, standbys, UINT64_MAX - rate, !native, local + peer,
                      local);
  }
  /// RDMA NICs come before plain ones. On either, carriers without rules of their own come first, then verbs
  /// or TCP, and UCX last.
  int tier() const {
    return (topology::is_rdma(kind) ? 0 : 3) + (!has_own_rules(carrier)    ? 0
                                                : carrier == Carrier::kUcx ? 2
                                                                           : 1);
  }
};

struct Situation {
  bool same_host = false, same_cluster = false;
  std::string shm_caveat;  // why ranks of one host do not use shared memory; empty where they do
};

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

/// The pair for the control channel of a way: its own pair where the kernel would send by it, else the best
/// pair by which the kernel would.
const Candidate& channel_pair_of(const Candidate& way, const std::vector<Candidate>& all) {
  const Candidate* best = &way;
  if (way.on_route) return way;
  for (const Candidate& one : all) {
    if (!one.reachable || !one.on_route || one.carrier != Carrier::kTcp) continue;
    if (best == &way || one.rank() < best->rank()) best = &one;
  }
  return *best;
}

// A pair beside one that is so much faster would add little, and delay the ends of messages.
constexpr std::uint64_t kSlowestBeside = 10;

/// Other pairs that can carry a connection together with `best`: they are of its kind, and each NIC is in one
/// pair. TCP streams and queue pairs of verbs each take as much as they attain; UCX gives its lanes parts by
/// a rule of its own, so there the rates must be equal. What stands by carries for a NIC that cannot reach
/// the peer, and not beside one: by RDMA a single pair, over TCP all that stand by alike.
std::vector<std::pair<std::size_t, std::size_t>> more_of(const Candidate& best,
                                                         const std::vector<const Candidate*>& possible) {
  std::vector<const Candidate*> taken{&best};
  std::vector<std::pair<std::size_t, std::size_t>> more;
  for (const Candidate* one : possible) {
    if (one->carrier != best.carrier || one->kind != best.kind || one->on_route != best.on_route ||
        one->native != best.native || one->standbys != best.standbys)
      continue;
    if (topology::is_rdma(best.kind) && best.standbys > 0) continue;
    if (best.carrier == Carrier::kTcp && !one->on_route) continue;
    const bool by_attained = best.carrier == Carrier::kTcp || best.carrier == Carrier::kRdma;
    if (by_attained ? one->rate * kSlowestBeside < best.rate : one->rate != best.rate) continue;
    const bool used = std::ranges::any_of(taken, [&](const Candidate* other) {
      return other->local == one->local || other->peer == one->peer;
    });
    if (used) continue;
    taken.push_back(one);
    more.emplace_back(one->local, one->peer);
  }
  return more;
}

/// The reason for the choice: why this pair, and why not the better ones.
std::string reason_for(const Candidate& best, const std::vector<Candidate>& all, const Endpoint& local,
                       const Endpoint& peer, const Situation& where) {
  std::string reason;
  if (best.same_host) {
    reason = "same host";
  } else if (topology::is_rdma(best.kind)) {
    reason = fmt::format("both on one {} fabric", topology::nic_kind_name(best.kind));
  } else if (best.carrier == Carrier::kUcx) {
    reason = "TOMBOLO_TRANSPORTS names ucx, and not tcp";
  } else {
    reason = fmt::format("{} {}", carrier_name(best.carrier),
                         where.same_host ? "inside one host" : "is the best that both share");
  }
  std::vector<std::string> better;
  for (const Candidate& candidate : all) {
    const Offer& mine = local.offers[candidate.local];
    const Offer& theirs = peer.offers[candidate.peer];
    if (&candidate == &best) {
      if (!candidate.caveat.empty()) better.push_back(explain(candidate, local, peer, candidate.caveat));
      continue;
    }
    // "Better" means: of a kind that, if it were allowed, would rank above the chosen one; or of the same
    // kind and faster. Pairs of an RDMA NIC and a plain one are left out, because no reader expects those two
    // to talk.
    NicKind could_be = std::max(mine.kind, theirs.kind);
    if (best.same_host || topology::is_rdma(mine.kind) != topology::is_rdma(theirs.kind)) continue;
    bool above = could_be < best.kind || (could_be == best.kind && candidate.rate > best.rate &&
                                          (!candidate.rejected.empty() || !candidate.on_route));
    std::string why = candidate.rejected.empty() ? candidate.caveat : candidate.rejected;
    if (why.empty() && !candidate.on_route) why = "the way to the peer's address leaves by another NIC";
    if (above && !why.empty()) better.push_back(explain(candidate, local, peer, why));
  }
  if (!better.empty()) reason += "; not taken: " + join(better, kMostReasons);
  return reason;
}

/// The two ends and the policy, and what follows from them for every pair of NICs.
struct Ends {
  Ends(const Endpoint& local_end, const Endpoint& peer_end, const Policy& by)
      : local(local_end),
        peer(peer_end),
        policy(by),
        where{same_host(local, peer), same_cluster(local, peer), why_no_shm(local, peer, policy)},
        no_ucx(why_no_ucx(local, peer, policy)),
        without_rules(carriers_without_rules(local, peer, policy)) {}

  const Endpoint &local, &peer;
  const Policy& policy;
  Situation where;
  std::string no_ucx;
  std::vector<Carrier> without_rules;
};

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

/// Every carrier over every pair of NICs, also those that are rejected.
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

[[noreturn]] void fail_without_way(const Ends& ends, const std::vector<Candidate>& all) {
  std::vector<std::string> reasons;
  for (const Candidate& candidate : all)
    reasons.push_back(explain(candidate, ends.local, ends.peer, candidate.rejected));
  fail(Cause::kUnsupported, "no way from host {} to {}: {}", ends.local.host.empty() ? "?" : ends.local.host,
       ends.peer.host.empty() ? "the peer" : "host " + ends.peer.host,
       all.empty() ? fmt::format("{} NICs with an address here, {} there", ends.local.offers.size(),
                                 ends.peer.offers.size())
                   : join(reasons, all.size()));
}

/// The way of a candidate: with the pair of its control channel, and the pairs that carry it too.
Choice choice_of(const Candidate& one, const Ends& ends, const std::vector<Candidate>& all,
                 const std::vector<const Candidate*>& possible) {
  Choice choice{
      one.carrier, one.kind, one.local, one.peer, reason_for(one, all, ends.local, ends.peer, ends.where),
      one.local,   one.peer, {}};
  const bool rdma_nics =
      one.carrier == Carrier::kRdma || (one.carrier == Carrier::kUcx && topology::is_rdma(one.kind));
  if (rdma_nics) {
    const Candidate& channel = channel_pair_of(one, all);
    choice.channel_local = channel.local;
    choice.channel_peer = channel.peer;
  }
  // Inside a host all NICs are one memory.
  if (rdma_nics || (one.carrier == Carrier::kTcp && !ends.where.same_host)) {
    choice.more = more_of(one, possible);
    for (const auto& [mine, theirs] : choice.more)
      choice.reason += fmt::format("; together with {} -> {}", ends.local.offers[mine].nic,
                                   ends.peer.offers[theirs].nic.empty() ? "?" : ends.peer.offers[theirs].nic);
  }
  return choice;
}

}  // namespace

bool allowed(const Policy& policy, Carrier carrier) {
  return policy.transports.empty() ||
         std::ranges::find(policy.transports, carrier_name(carrier)) != policy.transports.end();
}

bool named(const Policy& policy, Carrier carrier) {
  return !policy.transports.empty() && allowed(policy, carrier);
}

std::optional<NicKind> shared_kind(std::span<const Endpoint> endpoints) {
  std::optional<NicKind> best;
  if (endpoints.empty()) return best;
  for (const Offer& candidate : endpoints.front().offers) {
    const bool everywhere = std::ranges::all_of(endpoints, [&](const Endpoint& endpoint) {
      return std::ranges::any_of(endpoint.offers, [&](const Offer& offer) {
        return offer.kind == candidate.kind && offer.fabric == candidate.fabric;
      });
    });
    if (everywhere && (!best || candidate.kind < *best)) best = candidate.kind;
  }
  return best;
}

std::vector<Choice> choose(const Endpoint& local, const Endpoint& peer, const Policy& policy,
                           const OnRoute& on_route) {
  const Ends ends(local, peer, policy);
  const std::vector<Candidate> all = candidates_of(ends, on_route);
  std::vector<const Candidate*> possible;
  for (const Candidate& candidate : all)
    if (candidate.rejected.empty()) possible.push_back(&candidate);
  if (possible.empty()) fail_without_way(ends, all);
  std::ranges::sort(possible, {}, [](const Candidate* one) { return one->rank(); });
  std::vector<Choice> choices;
  for (const Candidate* one : possible) {
    // Another pair of NICs is tried only for another carrier: where TCP cannot reach the peer over one pair
    // it rarely can over another, and all attempts share one deadline.
    if (std::ranges::any_of(choices, [&](const Choice& made) { return made.carrier == one->carrier; }))
      continue;
    choices.push_back(choice_of(*one, ends, all, possible));
  }
  return choices;
}

}  // namespace tombolo::transport
