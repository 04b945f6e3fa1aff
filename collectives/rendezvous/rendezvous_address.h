// Where ranks meet: the address that they are told, and those that the store listens on.
#pragma once

#include <string>
#include <vector>

#include "topology/files/cluster_file.h"

namespace tombolo::collectives {

/// The address of `host` that most ranks can reach, for a unique id: of a TCP NIC on the fabric that all
/// share if there is one, for a faster NIC may lead to its own cluster only. Never a link-local one, which
/// needs a scope that only this host knows; 127.0.0.1 where there is no other.
std::string rendezvous_address(const topology::Host& host);

/// Whether an address means only this host: "localhost", or a loopback address in digits. A host's own name
/// does not, even where it resolves to a loopback address.
bool is_loopback(const std::string& address);

/// Where a store listens, given the address by which others know it.
struct ListenPlan {
  std::vector<std::string> addresses;  ///< in digits; the first that can be bound serves
  bool everywhere = false;             ///< they stand for every address of this host
  bool of_this_host = true;  ///< false where others will not find this host there, as far as it knows
};

/// Decides where to listen; a pure function. Only loopback, where the address means only that; else every
/// address of this host, because its name may resolve to 127.0.1.1 here, or the address may belong to a
/// service that forwards to this host. `resolved` (what the address resolves to) and `own` (this host's
/// addresses) are in digits.
ListenPlan plan_listening(const std::string& address, const std::vector<std::string>& resolved,
                          const std::vector<std::string>& own);

/// All addresses of a name, in digits. Throws kSystem saying why there are none.
std::vector<std::string> resolve_addresses(const std::string& name);
/// The addresses of this host's interfaces, in digits; empty where the kernel does not say.
std::vector<std::string> own_addresses();

}  // namespace tombolo::collectives
