#include "net_plugin/host_name.h"

#include <unistd.h>

#include <array>

#include "topology/files/cluster_file.h"

namespace tombolo::net_plugin {

std::string own_host_name() {
  if (std::string given = topology::kHostParameter.text(); !given.empty()) return given;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace tombolo::net_plugin
