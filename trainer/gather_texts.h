// Texts of all ranks on rank 0.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace tombolo::trainer {

/// Collective. By rank on rank 0, empty elsewhere. `world` null: just this rank's.
std::vector<std::string> gather_texts(collectives::Communicator* world, const std::string& own);

}  // namespace tombolo::trainer
