// All-to-all of few bytes: inside each cluster every rank hands the relay of each rank what it has for that
// one, and the relay sends what the whole cluster has as one message.
#pragma once

#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {

extern const Algorithm kRelayedAllToAll;

}  // namespace tombolo::collectives
