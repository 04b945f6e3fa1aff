// Reading a cluster file's "links" and "shared_links".
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "topology/files/cluster_file.h"

namespace tombolo::topology {

/// Hosts and their NICs by name, for checking references.
using NicsByHost = std::map<std::string, std::set<std::string>, std::less<>>;

/// Rejects the name of a host that the file does not have.
void check_host(const JsonCursor& cursor, const std::string& host, const NicsByHost& names);

/// Each throws kInvalidUsage at the wrong element, as ClusterFile::parse does.
std::vector<Link> links_of(const JsonCursor& list, const NicsByHost& names);
std::vector<SharedLink> shared_links_of(const JsonCursor& list, const NicsByHost& names);

}  // namespace tombolo::topology
