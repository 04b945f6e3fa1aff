#include "net_plugin/devices/properties.h"

#include <sys/resource.h>

#include <algorithm>

namespace tombolo::net_plugin {

int most_comms() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return kMaxComms;
  return static_cast<int>(std::clamp<rlim_t>(files.rlim_cur / 4, 1, kMaxComms));
}

bool registers_nothing(const NetDevice& device) {
  return std::ranges::none_of(device.host.nics, [](const topology::Nic& nic) {
    return topology::is_rdma(nic.kind) && !nic.emulated;
  });
}

}  // namespace tombolo::net_plugin
