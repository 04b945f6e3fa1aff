#include "topology/system/verbs_library.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "topology/system/verbs_functions.h"

namespace tombolo::topology {

VerbsLibrary::VerbsLibrary(std::shared_ptr<const VerbsFunctions> functions)
    : functions_(std::move(functions)) {}

std::optional<VerbsLibrary> VerbsLibrary::load(std::string* problem) {
  auto functions = VerbsFunctions::load(problem);
  if (!functions) return std::nullopt;
  return VerbsLibrary(std::move(functions));
}

namespace {

std::string gid_text(const ibv_gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < 16; i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i > 0 ? ":" : "", gid.raw[i], gid.raw[i + 1]);
  }
  return text;
}

bool is_empty(const ibv_gid& gid) {
  return std::all_of(gid.raw + 8, gid.raw + 16, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

std::vector<VerbsDevice> VerbsLibrary::devices() const {
  std::vector<VerbsDevice> all;
  int count = 0;
  ibv_device** list = functions_->get_device_list(&count);
  if (list == nullptr) return all;
  for (int i = 0; i < count; ++i) {
    VerbsDevice device;
    device.name = functions_->get_device_name(list[i]);
    errno = 0;
    ibv_context* context = functions_->open_device(list[i]);
    if (context == nullptr) {
      int error = errno;
      device.problem =
          fmt::format("libibverbs cannot open {}: {}; may this user read and write /dev/infiniband/uverbs*?",
                      device.name, error != 0 ? errno_text(error) : "no reason given");
      all.push_back(std::move(device));
      continue;
    }
    ibv_device_attr attributes{};
    int ports = functions_->query_device(context, &attributes) == 0 ? attributes.phys_port_cnt : 0;
    for (int number = 1; number <= ports; ++number) {
      ibv_port_attr port{};
      auto index = static_cast<std::uint8_t>(number);
      if (functions_->query_port(context, index, &port) != 0) continue;
      VerbsPort facts;
      facts.number = number;
      // IBV_MTU_256 is 1, and each following value is twice the size.
      if (port.active_mtu >= IBV_MTU_256 && port.active_mtu <= IBV_MTU_4096)
        facts.mtu = 128 << port.active_mtu;
      for (int gid = 0; gid < std::min(port.gid_tbl_len, 1024); ++gid) {
        ibv_gid value{};
        if (functions_->query_gid(context, index, gid, &value) != 0 || is_empty(value)) continue;
        // This old call does not return the type; /sys, which has it, was read first.
        facts.gids.push_back({gid, gid_text(value), "IB/RoCE v1"});
      }
      device.ports.push_back(std::move(facts));
    }
    functions_->close_device(context);
    all.push_back(std::move(device));
  }
  functions_->free_device_list(list);
  return all;
}

}  // namespace tombolo::topology
