#include "tools/doctor/nccl_one_sided_check.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "net_plugin/devices/nccl_environment.h"
#include "net_plugin/parameters.h"
#include "net_plugin/rma/parameters.h"

namespace tombolo::doctor {
namespace {

using topology::Nic;

/// "mlx5_0, mlx5_1": the devices of the NICs that the variables leave, and that RDMA may use.
std::string rdma_devices(const NcclFacts& facts) {
  std::vector<Nic> nics = facts.nics;
  try {
    const auto environment = net_plugin::NcclEnvironment::read([&](const char* name) -> const char* {
      const auto found = facts.variables.find(name);
      return found != facts.variables.end() ? found->second.value.c_str() : nullptr;
    });
    environment.apply(nics);
  } catch (const Error&) {
    return {};  // which is another check's
  }
  std::string text;
  for (const Nic& nic : nics) {
    const bool carries = nic.kind == topology::NicKind::kInfiniBand || nic.kind == topology::NicKind::kRoce;
    if (!carries || !nic.usable || nic.emulated || nic.rdma_device.empty() || nic.addresses.empty()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", nic.rdma_device);
  }
  return text;
}

bool rdma_is_allowed(const NcclFacts& facts) {
  const std::string transports = facts.value("TOMBOLO_TRANSPORTS");
  return transports.empty() || ("," + transports + ",").find(",rdma,") != std::string::npos;
}

/// Whether a device takes GPU memory, without which NCCL leaves it out.
bool takes_gpu_memory(const NcclFacts& facts) {
  const std::string mode = facts.value(std::string(net_plugin::kNetGpuParameter.name));
  if (mode == "staged") return true;
  return mode != "off" && std::ranges::any_of(facts.reach, [](const auto& one) {
           return one.second.reach == net_plugin::gpu::GpuReach::kDirect;
         });
}

}  // namespace

Check check_one_sided(const NcclFacts& facts) {
  const std::string name = "one-sided operations";
  const auto& parameter = net_plugin::kRmaParameter;
  const std::string set = facts.value(std::string(parameter.name));
  const std::string mode = set.empty() ? std::string(parameter.default_value) : set;
  const std::string said = fmt::format("{}={}", parameter.name, mode);
  const std::string nccl = fmt::format("NCCL {}", release_text(facts.release));
  const int table = rma_table(facts.release);
  if (mode != "off" && mode != "auto" && mode != "messages")
    return {name, Status::kFailed, said, "give it one of auto, messages and off"};
  if (mode == "off") {
    return {name,
            Status::kOk,
            table == 0
                ? fmt::format("{} asks no plugin for them", nccl)
                : fmt::format("{}: NCCL's own, between InfiniBand or RoCE NICs that reach each other", said),
            {}};
  }
  if (table == 0) {
    return {name, Status::kWarning, fmt::format("{}, but {} asks no plugin for them", said, nccl),
            "NCCL 2.30.3 and later do"};
  }
  const std::string devices = mode == "auto" && rdma_is_allowed(facts) ? rdma_devices(facts) : std::string();
  const std::string how =
      devices.empty()
          ? "by messages"
          : fmt::format(
                "host memory by {} where NICs of the other end reach them, else by messages; GPU memory "
                "and signals by messages",
                devices);
  const std::string seen = fmt::format("{}: {} takes ncclRmaPlugin_v{}; {}", said, nccl, table, how);
  if (facts.gpus > 0 && !takes_gpu_memory(facts)) {
    return {name, Status::kWarning,
            seen + "; but no device here takes GPU memory, and NCCL uses them on such devices alone",
            fmt::format("set {}=staged", net_plugin::kNetGpuParameter.name)};
  }
  return {name, Status::kOk, seen, {}};
}

}  // namespace tombolo::doctor
