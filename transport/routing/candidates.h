// The ways between two ends before one is chosen: every carrier over every pair of NICs, and which of them
// may not be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "topology/nic.h"
#include "transport/routing/router.h"

namespace tombolo::transport {

/// One pair of offers, judged as a way for one carrier.
struct Candidate {
  std::size_t local = 0, peer = 0;
  Carrier carrier = Carrier::kTcp;
  topology::NicKind kind = topology::NicKind::kTcp;  // what it is used as
  bool same_host = false;                            // a loopback path inside one host
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
  int tier() const;
};

struct Situation {
  bool same_host = false, same_cluster = false;
  std::string shm_caveat;  // why ranks of one host do not use shared memory; empty where they do
};

/// The two ends and the policy, and what follows from them for every pair of NICs.
struct Ends {
  Ends(const Endpoint& local, const Endpoint& peer, const Policy& policy);

  const Endpoint &local, &peer;
  const Policy& policy;
  Situation where;
  std::string no_ucx;
  std::vector<Carrier> without_rules;
};

/// Every carrier over every pair of NICs, also those that are rejected. Without `on_route` the kernel counts
/// as sending by any NIC.
std::vector<Candidate> candidates_of(const Ends& ends, const OnRoute& on_route);

/// "eth0 (tcp) -> ib1 (infiniband): why"
std::string explain(const Candidate& candidate, const Endpoint& local, const Endpoint& peer,
                    const std::string& why);

}  // namespace tombolo::transport
