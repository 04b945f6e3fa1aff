// The network that the probe's own communicator uses while it measures the others.
#pragma once

#include "probe/bootstrap/rendezvous_group.h"

namespace tombolo::probe {

/// The options of a communicator for the probe itself, which must not need the links that are yet to be found
/// out: over the Ethernet that all hosts share where every rank has such a NIC, else as `options` say.
/// Collective over `group`, which keeps the store.
collectives::Options control_network_options(RendezvousGroup& group, const collectives::Options& options);

}  // namespace tombolo::probe
