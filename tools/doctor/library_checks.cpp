// Checks whether the libraries that are loaded at run time can be loaded.
#include <algorithm>

#include "base/format.h"
#include "tools/doctor/checks.h"

namespace tombolo::doctor {
namespace {

struct Library {
  const char* name;
  const char* file;
  const char* without;  // what does not work without the library
};

constexpr Library kLibraries[] = {
    {"libibverbs", "libibverbs.so.1", "no RDMA: install the package libibverbs1 (and ibverbs-providers)"},
    {"hwloc", "libhwloc.so.15", "locality is read from /sys alone: install the package libhwloc15"},
};

}  // namespace

std::vector<Check> check_libraries(const Facts& facts) {
  std::vector<Check> checks;
  // A NIC also counts here that is used for TCP only because the library is missing.
  bool rdma = std::any_of(facts.machine.nics.begin(), facts.machine.nics.end(), [](const auto& nic) {
    return (topology::is_rdma(nic.kind) || !nic.rdma_device.empty()) && !nic.emulated;
  });
  for (const Library& library : kLibraries) {
    std::string refused = facts.load(library.file);
    bool needed = rdma && std::string_view(library.name) == "libibverbs";
    checks.push_back({library.name,
                      refused.empty() ? Status::kOk
                      : needed        ? Status::kFailed
                                      : Status::kWarning,
                      refused.empty() ? fmt::format("{} loads", library.file) : refused,
                      refused.empty() ? "" : library.without});
  }
  std::string no_ucx = facts.load("libucp.so.0");
  checks.push_back({"UCX",
                    Status::kOk,
                    no_ucx.empty()
                        ? "libucp.so.0 loads"
                        : "libucp.so.0 is not here: the transport ucx cannot be used, which only RDMA "
                          "NICs without working verbs need",
                    {}});
  bool gpus = !facts.machine.gpus.empty();
  for (const auto& [name, file] :
       {std::pair{"NVML", "libnvidia-ml.so.1"}, std::pair{"NCCL", "libnccl.so.2"}}) {
    std::string refused = facts.load(file);
    // A machine without a GPU does not need these libraries.
    checks.push_back({name, refused.empty() || !gpus ? Status::kOk : Status::kWarning,
                      refused.empty() ? fmt::format("{} loads", file)
                      : gpus          ? refused
                                      : fmt::format("{} is not here, and neither is a GPU", file),
                      refused.empty() || !gpus
                          ? ""
                          : fmt::format("put {} where the loader finds it (LD_LIBRARY_PATH)", file)});
  }
  if (facts.plugin.empty()) {
    checks.push_back({"NCCL plugin", gpus ? Status::kFailed : Status::kWarning,
                      "libnccl-net-tombolo.so was not found beside this program nor by the loader",
                      "build or install it, and add its folder to LD_LIBRARY_PATH"});
  } else {
    std::string refused = facts.load(facts.plugin);
    checks.push_back(
        {"NCCL plugin", refused.empty() ? Status::kOk : Status::kFailed,
         refused.empty() ? fmt::format("{} loads (NCCL_NET_PLUGIN={})", facts.plugin, facts.plugin) : refused,
         refused.empty() ? "" : "rebuild it on this machine's C library"});
  }
  return checks;
}

}  // namespace tombolo::doctor
