// The plugin's environment parameters; `tombolo env` lists them.
#pragma once

#include <vector>

#include "base/parameter.h"

namespace tombolo::net_plugin {

/// TOMBOLO_NET_NAME: the name that NCCL_NET and a communicator's netName select the plugin by.
extern const Parameter kNetNameParameter;
/// TOMBOLO_NET_DEVICES: merged or per-nic.
extern const Parameter kNetDevicesParameter;
/// TOMBOLO_NET_DEADLINE: the time allowed for the set-up of one connection.
extern const Parameter kNetDeadlineParameter;
/// TOMBOLO_NET_GROUPS: whether the plugin offers grouped receives.
extern const Parameter kNetGroupsParameter;

const std::vector<const Parameter*>& net_plugin_parameters();

}  // namespace tombolo::net_plugin
