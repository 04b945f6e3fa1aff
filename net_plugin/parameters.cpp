#include "net_plugin/parameters.h"

#include "net_plugin/profiler/parameters.h"
#include "net_plugin/rma/parameters.h"
#include "net_plugin/tuner/parameters.h"

namespace tombolo::net_plugin {

const Parameter kNetNameParameter{
    "TOMBOLO_NET_NAME", ParameterType::kText, "Tombolo",
    "The name under which NCCL knows the plugin (NCCL_NET, netName). Set it where a launcher accepts only "
    "names of its own, as Megatron does with IB and socket."};

const Parameter kNetNicsParameter{
    "TOMBOLO_NET_NICS", ParameterType::kText, "",
    "Which NICs the plugin uses, by interface or RDMA device, in the syntax of NCCL_IB_HCA: an optional ^ "
    "(all "
    "but), an optional = (whole names, not their beginnings), then a comma list of NAME[:PORT]. NCCL_IB_HCA "
    "and NCCL_SOCKET_IFNAME then concern NCCL alone. Empty = as they say."};

const Parameter kNetDevicesParameter{
    "TOMBOLO_NET_DEVICES", ParameterType::kChoice, "auto",
    "What NCCL sees: a device for each RDMA NIC, the other NICs standing by, or on a host without RDMA for "
    "each "
    "TCP NIC, every connection using all of them (auto); one device with all NICs (merged); or one for each "
    "NIC of the host's best kind, the others standing by (per-nic).",
    "auto|merged|per-nic"};

const Parameter kNetDeadlineParameter{
    "TOMBOLO_NET_DEADLINE", ParameterType::kSeconds, "300",
    "Seconds that a connection of an NCCL communicator may take to be made, counted from its first connect; "
    "long, since ranks start at different times."};

const Parameter kNetGroupsParameter{
    "TOMBOLO_NET_GROUPS", ParameterType::kChoice, "on",
    "Whether one irecv of NCCL's may take up to eight messages with tags, by which ranks of one host share "
    "connections (on, off); alike on all ranks.",
    "on|off"};

const Parameter kNetOverlongParameter{
    "TOMBOLO_NET_OVERLONG", ParameterType::kChoice, "error",
    "What becomes of a message that is larger than its receive: the connection fails, naming both sizes "
    "(error); "
    "or, over TCP and shared memory, the receive takes what fits and the rest is discarded (truncate), as "
    "NCCL's "
    "own InfiniBand network does without a word. NCCL itself sends none; alike on all ranks.",
    "error|truncate"};

const Parameter kNetStallParameter{"TOMBOLO_NET_STALL", ParameterType::kSeconds, "30",
                                   "Seconds without a byte after which a WARN line names a connection of "
                                   "NCCL's that waits, or is waited for: rank, peer, NICs "
                                   "and message; again after ten times as long. 0 = never."};

const Parameter kNetGpuParameter{
    "TOMBOLO_NET_GPU", ParameterType::kChoice, "auto",
    "GPU memory: taken where the NICs of a device reach it themselves, its other connections staging it "
    "(auto); never (off); staged by every connection that does not reach it (staged); taken without staging "
    "over the NICs that reach it, other RDMA NICs being left out; where none does, init fails (direct).",
    "auto|off|staged|direct"};

const Parameter kNetGpuBuffersParameter{
    "TOMBOLO_NET_GPU_BUFFERS", ParameterType::kSize, "64M",
    "Page-locked host memory of a process for staging GPU memory; more is taken only where every connection "
    "could not have its own two pieces of 136 KiB."};

const Parameter kNetGpuCopiesParameter{"TOMBOLO_NET_GPU_COPIES", ParameterType::kInteger, "4",
                                       "Copies of up to 136 KiB that staging may have under way for each "
                                       "GPU, direction and kind of memory, 1 to 64: what it "
                                       "takes of the copy engines."};

const std::vector<const Parameter*>& net_plugin_parameters() {
  static const std::vector<const Parameter*> all{
      &kNetNameParameter,       &kNetNicsParameter,      &kNetDevicesParameter, &kNetDeadlineParameter,
      &kNetGroupsParameter,     &kNetOverlongParameter,  &kNetStallParameter,   &kNetGpuParameter,
      &kNetGpuBuffersParameter, &kNetGpuCopiesParameter, &kTunerParameter,      &kTunerLinkParameter,
      &kTunerLogParameter,      &kProfilerParameter,     &kRmaParameter};
  return all;
}

}  // namespace tombolo::net_plugin
