#include "net_plugin/parameters.h"

#include "net_plugin/profiler/parameters.h"
#include "net_plugin/tuner/parameters.h"

namespace tombolo::net_plugin {

const Parameter kNetNameParameter{
    "TOMBOLO_NET_NAME", ParameterType::kText, "Tombolo",
    "The name under which NCCL knows the plugin (NCCL_NET, netName). Set it where a launcher accepts only "
    "names of its own, as Megatron does with IB and socket."};

const Parameter kNetDevicesParameter{
    "TOMBOLO_NET_DEVICES", ParameterType::kChoice, "merged",
    "What NCCL sees: one device through which every connection finds its own way over all NICs of the host "
    "(merged), or one device per NIC of the host's best kind, the NICs of other kinds standing by (per-nic).",
    "merged|per-nic"};

const Parameter kNetDeadlineParameter{
    "TOMBOLO_NET_DEADLINE", ParameterType::kSeconds, "300",
    "Seconds that a connection of an NCCL communicator may take to be made, counted from its first connect; "
    "long, since ranks start at different times."};

const Parameter kNetGroupsParameter{
    "TOMBOLO_NET_GROUPS", ParameterType::kChoice, "on",
    "Whether one irecv of NCCL's may take up to eight messages with tags, by which ranks of one host share "
    "connections (on, off); alike on all ranks.",
    "on|off"};

const std::vector<const Parameter*>& net_plugin_parameters() {
  static const std::vector<const Parameter*> all{
      &kNetNameParameter, &kNetDevicesParameter, &kNetDeadlineParameter, &kNetGroupsParameter,
      &kTunerParameter,   &kTunerLogParameter,   &kProfilerParameter};
  return all;
}

}  // namespace tombolo::net_plugin
