// The error message where hosts must talk that no link joins.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

/// Names of the hosts with ranks, in parts: inside of one, each reaches each by links in both directions, by
/// way of others where need be. In the cluster file's order.
std::vector<std::vector<std::string>> linked_parts(const SearchContext& context);

/// Throws kInvalidUsage with `why`, which names a link that lacks, and with the parts where there are
/// several.
[[noreturn]] void fail_nothing_linked(const SearchContext& context, const std::string& why);

}  // namespace tombolo::planner
