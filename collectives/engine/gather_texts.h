// Gathers a text of any length from every rank.
#pragma once

#include <string>
#include <vector>

#include "collectives/engine/communicator.h"

namespace tombolo::collectives {

enum class GatherTo {
  kEveryRank,  ///< at most 1 MiB each: all ranks hold all of them
  kRankZero,   ///< of any length; empty on the other ranks
};

/// Returns the texts by rank. Collective: every rank must call it. Throws kInvalidUsage where `own` is too
/// long.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own,
                                      GatherTo to = GatherTo::kEveryRank);

}  // namespace tombolo::collectives
