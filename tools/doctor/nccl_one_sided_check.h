// The check of what NCCL's one-sided operations (RMA, and its proxy of GIN) would do with this plugin.
#pragma once

#include "tools/doctor/nccl_facts.h"

namespace tombolo::doctor {

/// Which table NCCL would take, and what carries the bytes. Warns where TOMBOLO_RMA asks for what this
/// release or this host does not do.
Check check_one_sided(const NcclFacts& facts);

}  // namespace tombolo::doctor
