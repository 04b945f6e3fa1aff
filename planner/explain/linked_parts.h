// The error message where hosts must communicate and no link joins them.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

/// Divides the names of the hosts with ranks into parts. Within a part every host reaches every other by
/// links in both directions, through others where necessary. Parts and hosts are in the cluster file's order.
std::vector<std::vector<std::string>> linked_parts(const SearchContext& context);

/// Throws kInvalidUsage with `why`, which names a missing link, and with the parts where there are several.
[[noreturn]] void fail_nothing_linked(const SearchContext& context, const std::string& why);

}  // namespace tombolo::planner
