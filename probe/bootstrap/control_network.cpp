#include "probe/bootstrap/control_network.h"

#include <string>

namespace tombolo::probe {

collectives::Options control_network_options(RendezvousGroup& group, const collectives::Options& options) {
  collectives::Options common = group.with_store(options);
  auto& nics = common.router.host.nics;
  std::erase_if(nics, [](const topology::Nic& nic) {
    return nic.kind != topology::NicKind::kTcp || !nic.fabric.empty() || !nic.usable || nic.addresses.empty();
  });
  bool everywhere = true;
  for (const std::string& has : group.gather("ethernet", nics.empty() ? "no" : "yes", options.deadline))
    everywhere = everywhere && has == "yes";
  if (everywhere) {
    common.routing = collectives::Routing::kPerPeer;
    common.router.policy.require_rdma = false;
  } else {
    common.router.host.nics = options.router.host.nics;
  }
  return common;
}

}  // namespace tombolo::probe
