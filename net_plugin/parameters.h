// The plugin's environment parameters; `tombolo env` lists them.
#pragma once

#include <vector>

#include "base/parameter.h"

namespace tombolo::net_plugin {

/// TOMBOLO_NET_NAME: the name that NCCL_NET and a communicator's netName select the plugin by.
extern const Parameter kNetNameParameter;
/// TOMBOLO_NET_NICS: which NICs the plugin uses, before what NCCL's variables say.
extern const Parameter kNetNicsParameter;
/// TOMBOLO_NET_DEVICES: auto, merged or per-nic.
extern const Parameter kNetDevicesParameter;
/// TOMBOLO_NET_DEADLINE: the time allowed for the set-up of one connection.
extern const Parameter kNetDeadlineParameter;
/// TOMBOLO_NET_GROUPS: whether the plugin offers grouped receives.
extern const Parameter kNetGroupsParameter;
/// TOMBOLO_NET_OVERLONG: whether a receive takes what fits of a larger message.
extern const Parameter kNetOverlongParameter;

/// TOMBOLO_NET_STALL: after how long a comm in which nothing moves is told of.
extern const Parameter kNetStallParameter;

/// TOMBOLO_NET_GPU: auto, off, staged or direct.
extern const Parameter kNetGpuParameter;
/// TOMBOLO_NET_GPU_BUFFERS: bytes of pinned memory for staging.
extern const Parameter kNetGpuBuffersParameter;
/// TOMBOLO_NET_GPU_COPIES: copies under way for each GPU, direction and kind of memory.
extern const Parameter kNetGpuCopiesParameter;

const std::vector<const Parameter*>& net_plugin_parameters();

}  // namespace tombolo::net_plugin
