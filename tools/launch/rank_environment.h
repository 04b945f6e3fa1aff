// The environment variables with which the ranks of a launch start. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tombolo::tools {

using Variables = std::map<std::string, std::string>;

/// The variables that all of `ranks` ranks inherit from `environment` ("NAME=VALUE" strings, ended by a
/// null): without the rank numbers of another launcher, and with WORLD_SIZE.
Variables inherited_variables(const char* const* environment, int ranks);

/// RANK, LOCAL_RANK and LOCAL_WORLD_SIZE of one rank. `hosts` says where each rank runs; ranks with equal
/// names share a host.
Variables rank_variables(int rank, const std::vector<std::string>& hosts);

/// The variables as lines "NAME=VALUE", as execve() takes them.
std::vector<std::string> environment_lines(const Variables& variables);

}  // namespace tombolo::tools
