// The choice of a pair of NICs: a pure function of what the two ends offer and of the policy.
#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "transport/routing/candidates.h"
#include "transport/routing/router.h"

namespace tombolo::transport {

namespace {

using topology::NicKind;

constexpr std::size_t kMostReasons = 6;

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
