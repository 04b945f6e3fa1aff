#include "tools/doctor/nccl_network_checks.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "net_plugin/devices/nccl_environment.h"
#include "net_plugin/parameters.h"

namespace tombolo::doctor {
namespace {

using net_plugin::NcclEnvironment;
using net_plugin::NicFilter;
using topology::Nic;

/// The variables whose effect on NICs is shown one by one.
constexpr std::array kNicVariables{"TOMBOLO_NET_NICS", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",
                                   "NCCL_SOCKET_FAMILY", "NCCL_IB_DISABLE"};

/// The environment with `only` alone, or with all variables where it is null.
NcclEnvironment environment_of(const NcclFacts& facts, const char* only) {
  return NcclEnvironment::read([&](const char* name) -> const char* {
    if (only != nullptr && std::string_view(only) != name) return nullptr;
    const auto found = facts.variables.find(name);
    return found != facts.variables.end() ? found->second.value.c_str() : nullptr;
  });
}

/// "eth0 10.0.0.1, ib0 (mlx5_0) 10.1.0.1": those that would be used, with their addresses.
std::string used(const std::vector<Nic>& nics) {
  std::string text;
  for (const Nic& nic : nics) {
    if (!nic.usable || nic.addresses.empty()) continue;
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", nic.name,
                        nic.rdma_device.empty() ? "" : fmt::format(" ({})", nic.rdma_device),
                        fmt::join(nic.addresses, " "));
  }
  return text.empty() ? "none" : text;
}

bool concerned(const std::string& variable, const Nic& nic) {
  if (variable == "NCCL_IB_HCA") return topology::is_rdma(nic.kind);
  return true;
}

/// The names by which a filter may know a NIC.
std::vector<std::string> names_of(const std::string& variable, const Nic& nic) {
  if (variable == "NCCL_SOCKET_IFNAME" || nic.rdma_device.empty()) return {nic.name};
  if (variable == "NCCL_IB_HCA") return {nic.rdma_device};
  return {nic.name, nic.rdma_device};
}

/// What is odd about a list of names on this host: empty where nothing is.
struct Oddity {
  std::string what, advice;
};
Oddity oddity_of(const std::string& variable, const std::string& value, const std::vector<Nic>& nics) {
  const NicFilter filter = NicFilter::parse(value);
  const bool any = std::ranges::any_of(nics, [&](const Nic& nic) { return concerned(variable, nic); });
  for (const NicFilter::Entry& entry : filter.entries) {
    bool exactly = false;
    std::string longer, by_beginning;
    for (const Nic& nic : nics) {
      if (!concerned(variable, nic)) continue;
      for (const std::string& name : names_of(variable, nic)) {
        if (name == entry.name) exactly = true;
        if (name == entry.name || !name.starts_with(entry.name)) continue;
        by_beginning += (by_beginning.empty() ? "" : ", ") + name;
        // "eth1" and "eth10"; "eth" alone is meant to be a beginning.
        const bool digits = std::isdigit(static_cast<unsigned char>(entry.name.back())) != 0 &&
                            std::isdigit(static_cast<unsigned char>(name[entry.name.size()])) != 0;
        if (digits) longer += (longer.empty() ? "" : ", ") + name;
      }
    }
    if (exactly && !longer.empty() && !filter.exact) {
      return {fmt::format("'{}' also takes {}", entry.name, longer),
              fmt::format("{}={}={} takes whole names", variable, filter.exclude ? "^" : "",
                          value.substr(filter.exclude ? 1 : 0))};
    }
    if (any && !exactly && (by_beginning.empty() || filter.exact)) {
      return {fmt::format("no NIC here is called '{}'", entry.name),
              "correct the name, where this host should have that NIC"};
    }
  }
  return {};
}

Check filter_check(const NcclFacts& facts, const char* variable, const std::string& effect) {
  const std::string value = facts.value(variable);
  const std::string said = fmt::format("{}={}: {}", variable, value, effect);
  if (effect.starts_with("not looked at"))
    return {variable, Status::kWarning, said, fmt::format("unset one of the two, or {}", variable)};
  std::vector<Nic> nics = facts.nics;
  try {
    environment_of(facts, variable).apply(nics);
  } catch (const Error& error) {
    return {variable, Status::kFailed, error.what(), "a job would end in the plugin's start"};
  }
  std::string seen = fmt::format("{}; it leaves {}", said, used(nics));
  const std::string_view name = variable;
  if (name == "NCCL_SOCKET_FAMILY" || name == "NCCL_IB_DISABLE") return {variable, Status::kOk, seen, {}};
  const Oddity odd = oddity_of(variable, value, facts.nics);
  if (!odd.what.empty()) seen += "; " + odd.what;
  return {variable, odd.what.empty() ? Status::kOk : Status::kWarning, seen, odd.advice};
}

}  // namespace

std::vector<Check> check_nic_filters(const NcclFacts& facts) {
  std::vector<Check> checks;
  NcclEnvironment all;
  try {
    all = environment_of(facts, nullptr);
  } catch (const Error& error) {
    return {{"NCCL's variables", Status::kFailed, error.what(), "a job would end in the plugin's start"}};
  }
  for (const char* variable : kNicVariables) {
    const auto seen = std::ranges::find(all.seen, variable, &net_plugin::SeenVariable::name);
    if (seen != all.seen.end()) checks.push_back(filter_check(facts, variable, seen->effect));
  }
  if (checks.empty()) return checks;
  std::vector<Nic> nics = facts.nics;
  try {
    all.apply(nics);
    checks.push_back({"NICs that are left", Status::kOk, used(nics), {}});
  } catch (const Error& error) {
    const bool told =
        std::ranges::any_of(checks, [](const Check& one) { return one.status == Status::kFailed; });
    if (!told) {
      checks.push_back({"NICs that are left", Status::kFailed, error.what(),
                        "each variable leaves some NICs, but all of them together none"});
    }
  }
  return checks;
}

std::vector<Check> check_gpu_reach(const NcclFacts& facts) {
  std::vector<Check> checks;
  for (const auto& [nic, found] : facts.reach) {
    const std::string name = fmt::format("GPU memory, {}", nic);
    using net_plugin::gpu::GpuReach;
    if (found.reach == GpuReach::kDirect) {
      checks.push_back({name, Status::kOk, "reached by the NIC: " + found.reason, {}});
    } else if (!found.no_peer_memory.empty() && !found.no_dma_buf.empty()) {
      checks.push_back({name, Status::kWarning, fmt::format("goes through host memory: {}", found.reason),
                        "either will do: modprobe nvidia_peermem, after the NIC's driver; or for DMA-BUF the "
                        "open kernel modules of the GPU's driver, Linux 5.12 and rdma-core 34 or later"});
    } else {
      checks.push_back({name, Status::kOk, fmt::format("goes through host memory: {}", found.reason), {}});
    }
  }
  return checks;
}

std::vector<Check> check_staging(const NcclFacts& facts) {
  const std::string mode = facts.value(std::string(net_plugin::kNetGpuParameter.name));
  const bool direct = std::ranges::any_of(
      facts.reach, [](const auto& one) { return one.second.reach == net_plugin::gpu::GpuReach::kDirect; });
  // By default those connections stage whose device has a NIC that reaches GPU memory, and which go over TCP.
  if (mode != "staged" && !((mode.empty() || mode == "auto") && direct)) return {};
  const std::string who = mode == "staged" ? "all connections stage GPU memory"
                                           : "connections that RDMA does not reach stage GPU memory";
  std::vector<Check> checks;
  const auto value = [&](const char* name) {
    const auto found = facts.cuda_variables.find(name);
    return found != facts.cuda_variables.end() ? found->second : std::string();
  };
  if (value("CUDA_DEVICE_MAX_CONNECTIONS") == "1") {
    checks.push_back(
        {"copies for staging", Status::kWarning,
         fmt::format("CUDA_DEVICE_MAX_CONNECTIONS=1, and {}: a copy may wait behind a kernel that "
                     "waits for the network",
                     who),
         "give it 2 or more where the framework allows that, or set TOMBOLO_NET_GPU=off"});
  }
  if (const std::string blocking = value("CUDA_LAUNCH_BLOCKING"); !blocking.empty() && blocking != "0") {
    checks.push_back({"copies for staging", Status::kWarning,
                      fmt::format("CUDA_LAUNCH_BLOCKING={}, and {}: every copy waits", blocking, who),
                      "unset it: it is for debugging"});
  }
  return checks;
}

}  // namespace tombolo::doctor
