// Checks of a job's NCCL, made before the job is: whether it would use this plugin, and with which surprises.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/doctor/checks.h"
#include "tools/doctor/nccl_facts.h"

namespace tombolo::doctor {

/// Fails where a job in this environment would not use the plugin, or could not run; warns where it would in
/// some cases, or silently not.
std::vector<Check> check_nccl(const NcclFacts& facts);

/// What must be the same in every process of a job, by name: NCCL's release, the variables that choose
/// networks, and the cluster file's bytes.
using NcclAgreement = std::map<std::string, std::string>;
NcclAgreement nccl_agreement(const NcclFacts& facts);

struct RankAgreement {
  int rank = 0;
  std::string host;
  NcclAgreement values;
};
/// One failed check for each name whose value differs between ranks, or else one that is ok.
std::vector<Check> check_nccl_agreement(const std::vector<RankAgreement>& ranks);

}  // namespace tombolo::doctor
