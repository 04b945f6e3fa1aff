// Gives the NCCL of this process Tombolo's net plugin.
#pragma once

#include <string>
#include <vector>

namespace tombolo::trainer {

/// Tells NCCL to use Tombolo's net plugin where the user has named none (NCCL_NET_PLUGIN) and the plugin lies
/// beside this program, in the folder of its libraries, or where the loader finds it. The plugin is named as
/// every release of NCCL takes it, by its name, and is loaded here first: the loader then finds it by that
/// name, wherever it lies. NCCL_NET_PLUGIN_REF_COUNT, where it is not set, becomes 1, because NCCL 2.28 and
/// 2.29 otherwise forget the plugin between two sets of communicators. To be called before other threads run.
/// Returns what NCCL will find in the variable, and from where; empty: nothing.
std::string offer_net_plugin();

/// The same with the places where the library may lie, tried in this order.
std::string offer_net_plugin(const std::vector<std::string>& places);

}  // namespace tombolo::trainer
