// The network that the probe's own communicator uses while the links are measured.
#pragma once

#include "probe/bootstrap/rendezvous_group.h"

namespace tombolo::probe {

/// The options of a communicator for the probe itself, which must not depend on the links that are still to
/// be measured: it uses the Ethernet that all hosts share where every rank has such a NIC, and otherwise what
/// `options` say. Collective over `group`, which keeps the store.
collectives::Options control_network_options(RendezvousGroup& group, const collectives::Options& options);

}  // namespace tombolo::probe
