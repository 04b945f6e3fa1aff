// Whether two NICs of different hosts can be expected to reach each other, from what is known of both without
// sending anything.
#pragma once

#include <string>
#include <string_view>

#include "topology/nic.h"

namespace tombolo::topology {

/// How likely it is, the best first.
enum class Chance {
  kYes,      ///< one network by all that is known
  kLikely,   ///< a router has a route, or both networks have a number that is a common default
  kUnknown,  ///< too little is known of one side
  kNo        ///< what is known speaks against it
};
/// "yes", "likely", "unknown", "no".
std::string_view chance_name(Chance chance) noexcept;

struct Reach {
  Chance chance = Chance::kUnknown;
  std::string why;  ///< to be shown: "both in 10.2.0.0/24"
};

/// If `rdma`, judges RDMA between NICs of one kind (InfiniBand by the subnets' prefixes, RoCE and iWARP by
/// version and IP); else judges IP. Firewalls, switches and policy routes are not considered: `tombolo probe`
/// and `tombolo doctor` try the connection itself.
Reach judge_reach(const Nic& from, const Nic& to, bool rdma);

/// Judges RDMA where both NICs are of one RDMA kind, else IP.
Reach judge_reach(const Nic& from, const Nic& to);

/// The prefix of an InfiniBand subnet whose administrator set none.
inline constexpr std::string_view kDefaultSubnetPrefix = "fe80:0000:0000:0000";

}  // namespace tombolo::topology
