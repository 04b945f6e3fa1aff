#include "net_plugin/parameters.h"

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

const Parameter kNetGpuParameter{
    "TOMBOLO_NET_GPU", ParameterType::kChoice, "auto",
    "GPU memory: taken where the NICs of a device reach it themselves, its other connections staging it "
    "(auto); "
    "never (off); staged by every connection that does not reach it (staged); taken without staging, or init "
    "fails (direct).",
    "auto|off|staged|direct"};

const Parameter kNetGpuBuffersParameter{
    "TOMBOLO_NET_GPU_BUFFERS", ParameterType::kSize, "64M",
    "Page-locked host memory of a process for staging GPU memory; more is taken only where every connection "
    "could not have its own two pieces of 136 KiB."};

const Parameter kNetGpuCopiesParameter{"TOMBOLO_NET_GPU_COPIES", ParameterType::kInteger, "4",
                                       "Copies of up to 136 KiB that staging may have under way for each GPU "
                                       "and direction, 1 to 64: what it takes "
                                       "of the copy engines."};

const std::vector<const Parameter*>& net_plugin_parameters() {
  static const std::vector<const Parameter*> all{&kNetNameParameter,       &kNetDevicesParameter,
                                                 &kNetDeadlineParameter,   &kNetGpuParameter,
                                                 &kNetGpuBuffersParameter, &kNetGpuCopiesParameter};
  return all;
}

}  // namespace tombolo::net_plugin
