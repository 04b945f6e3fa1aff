// What NCCL's releases do with a net plugin, as rules that need no NCCL. tests/nccl/loader_test.py has the
// loaders of the releases themselves say the same (docs/results/nccl_loader.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::doctor {

/// A release as ncclGetVersion() counts it: major * 10000 + minor * 100 + patch from 2.9 on.
using NcclRelease = int;
/// Not known; the functions below then tell what the newest release does.
inline constexpr NcclRelease kUnknownRelease = 0;
/// The newest minor release whose loader was tried, and the first after it.
inline constexpr NcclRelease kNewestTried = 23200, kFirstUntried = 23300;

/// "2.28.9"; "2.?" where it is not known.
std::string release_text(NcclRelease release);

/// The newest net table that a release looks for; 0 where it is older than any that this plugin has.
int newest_net_table(NcclRelease release) noexcept;
/// The table of one-sided operations that a release takes of this plugin; 0 where it asks no plugin for them.
int rma_table(NcclRelease release) noexcept;
/// Whether NCCL_NET_PLUGIN may be the path of a library.
bool takes_path(NcclRelease release) noexcept;
/// Whether NCCL_NET_PLUGIN may be a comma list.
bool takes_list(NcclRelease release) noexcept;
/// Whether NCCL_CONF_FILE names a file of variables.
bool reads_named_file(NcclRelease release) noexcept;
/// Whether ~ in ~/.nccl.conf is HOME, and a carriage return at the end of a line no part of the value;
/// before, ~ is the folder that the list of users names.
bool takes_home_from_environment(NcclRelease release) noexcept;
/// Whether a communicator that is made after a process' last one ended no longer gets the plugin.
/// `reference_count`: the value of NCCL_NET_PLUGIN_REF_COUNT, empty where it is not set.
bool forgets_plugin(NcclRelease release, std::string_view reference_count) noexcept;

/// The entries of NCCL_NET_PLUGIN's value; one empty entry where it is not set.
std::vector<std::string> plugin_entries(std::string_view value, NcclRelease release);
/// The names that NCCL gives to dlopen(3) for an entry, in this order, until one loads.
std::vector<std::string> libraries_tried(std::string_view entry, NcclRelease release);
/// The version of the table that NCCL takes of those that a library has; 0 where it takes none.
int table_taken(std::span<const int> offered, NcclRelease release) noexcept;

}  // namespace tombolo::doctor
