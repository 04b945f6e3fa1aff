// What is simulated: which layer of the product the faults lie beneath.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {

enum class Under {
  kConnection,  ///< two owners post messages to a connection
  kPlugin,      ///< NCCL's calls of the net plugin
  kCollectives  ///< communicators of several ranks
};

/// "connection", ...
const char* name_of(Under under);
/// Draws and runs the plan of a seed.
Verdict run_seed(Under under, std::uint64_t seed, const RunOptions& options = {}, Over over = Over::kTcp);
/// The plan of a seed, for people.
std::string describe_seed(Under under, std::uint64_t seed, Over over = Over::kTcp);

}  // namespace tombolo::simulation
