#include <string>

#include "probe/probe.h"

namespace tombolo::probe {

collectives::Options common_ground(Assembly& assembly, const collectives::Options& options) {
  collectives::Options common = assembly.with_store(options);
  auto& nics = common.router.host.nics;
  std::erase_if(nics, [](const topology::Nic& nic) {
    return nic.kind != topology::NicKind::kTcp || !nic.fabric.empty() || !nic.usable || nic.addresses.empty();
  });
  bool everywhere = true;
  for (const std::string& has : assembly.gather("ethernet", nics.empty() ? "no" : "yes", options.deadline))
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
