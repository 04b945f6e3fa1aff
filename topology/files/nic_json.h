// A NIC and a device as the cluster file writes them, for all JSON of this room.
#pragma once

#include "base/json.h"
#include "topology/files/cluster_file.h"

namespace tombolo::topology {

Json nic_json(const Nic& nic);
Json device_json(const Device& device);

}  // namespace tombolo::topology
