#include "topology/nic.h"

#include <array>
#include <utility>

namespace tombolo::topology {
namespace {

constexpr std::array<std::pair<NicKind, std::string_view>, 4> kKinds{{{NicKind::kInfiniBand, "infiniband"},
                                                                      {NicKind::kRoce, "roce"},
                                                                      {NicKind::kIwarp, "iwarp"},
                                                                      {NicKind::kTcp, "tcp"}}};

}  // namespace

std::string_view nic_kind_name(NicKind kind) noexcept {
  for (const auto& [value, name] : kKinds) {
    if (value == kind) return name;
  }
  return "unknown";
}

std::optional<NicKind> nic_kind_from_name(std::string_view name) noexcept {
  for (const auto& [value, text] : kKinds) {
    if (text == name) return value;
  }
  return std::nullopt;
}

bool is_rdma(NicKind kind) noexcept {
  return kind != NicKind::kTcp;
}

std::string_view nic_role_name(NicRole role) noexcept {
  switch (role) {
    case NicRole::kPhysical:
      return "physical";
    case NicRole::kVirtualFunction:
      return "virtual function";
    case NicRole::kBond:
      return "bond";
    case NicRole::kVlan:
      return "vlan";
    case NicRole::kVirtual:
      return "virtual";
    case NicRole::kContainerBridge:
      return "container bridge";
    case NicRole::kTunnel:
      return "tunnel";
    case NicRole::kLoopback:
      return "loopback";
  }
  return "unknown";
}

std::string_view nic_state_name(NicState state) noexcept {
  switch (state) {
    case NicState::kUp:
      return "up";
    case NicState::kDown:
      return "down";
    case NicState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

std::string subnet_prefix(const Nic& nic) {
  constexpr std::size_t kPrefixDigits = 19;  // of "fe80:0000:0000:0000"
  return nic.gids.empty() ? std::string() : nic.gids.front().value.substr(0, kPrefixDigits);
}

}  // namespace tombolo::topology
