// Checks of what a job's variables leave of this host's NICs, and of how these get at GPU memory. They ask
// the plugin's own code what it makes of both.
#pragma once

#include <vector>

#include "tools/doctor/nccl_facts.h"

namespace tombolo::doctor {

/// One check for each variable that chooses NICs or their addresses, with what it leaves by itself, and one
/// for what all of them leave. Fails where nothing would be left; warns of a name that no NIC has, and of one
/// that takes more NICs than it names.
std::vector<Check> check_nic_filters(const NcclFacts& facts);

/// One check for each RDMA NIC of a host with GPUs: nvidia_peermem, DMA-BUF, and what to do for either.
std::vector<Check> check_gpu_reach(const NcclFacts& facts);

/// Warns of settings that hold up copies between GPU and host memory, where connections may stage.
std::vector<Check> check_staging(const NcclFacts& facts);

}  // namespace tombolo::doctor
