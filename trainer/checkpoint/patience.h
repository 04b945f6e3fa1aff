// Waiting for the other ranks' disks.
#pragma once

#include <functional>

#include "collectives/engine/communicator.h"

namespace tombolo::trainer {

/// Collective over `world` (null = a single rank): calls `work`, which makes no calls on `world`, and returns
/// when it has returned on every rank. Meanwhile a thread exchanges a word with the others now and then, so
/// that a rank whose disk is slow does not run the others into the communicator's deadline. Throws what a
/// communicator throws, and what `work` throws, once all ranks are done.
void work_with_patience(collectives::Communicator* world, const std::function<void()>& work);

}  // namespace tombolo::trainer
