// Whether two NICs of different hosts can be expected to reach each other, from what is known of both without
// sending anything.
#pragma once

#include <string>
#include <string_view>

#include "topology/nic.h"

namespace tombolo::topology {

/// Best first.
enum class Chance {
  kYes,      ///< one network by all that is known
  kLikely,   ///< a router has a route, or two networks bear one number that everybody uses
  kUnknown,  ///< one side tells too little
  kNo        ///< what is known speaks against it
};
/// "yes", "likely", "unknown", "no".
std::string_view chance_name(Chance chance) noexcept;

struct Reach {
  Chance chance = Chance::kUnknown;
  std::string why;  ///< for people: "both in 10.2.0.0/24"
};

/// `rdma`: whether it is asked for RDMA between NICs of one kind (InfiniBand by the subnets' prefixes, RoCE
/// and iWARP by version and IP), else for IP. Pure. Only what firewalls, switches and policy routes do not
/// change is judged: `tombolo probe` and `tombolo doctor` try it.
Reach judge_reach(const Nic& from, const Nic& to, bool rdma);

/// Of the same kind of RDMA: by it, else by IP.
Reach judge_reach(const Nic& from, const Nic& to);

/// The prefix that a subnet has to which nobody gave another.
inline constexpr std::string_view kDefaultSubnetPrefix = "fe80:0000:0000:0000";

}  // namespace tombolo::topology
