#include "net_plugin/comms/net_attributes.h"

#include <string_view>

#include "base/format.h"

namespace tombolo::net_plugin {
namespace {

template <typename T>
bool exchange(std::atomic<T>& value, T next) noexcept {
  return value.exchange(next, std::memory_order_relaxed) != next;
}

template <typename T>
T read(const std::atomic<T>& value) noexcept {
  return value.load(std::memory_order_relaxed);
}

std::string number(std::int32_t value) {
  return value == abi::NCCL_NET_ATTR_UNDEF ? "?" : fmt::format("{}", value);
}

std::string range(std::int32_t least, std::int32_t most) {
  return least == most ? number(most) : number(least) + " to " + number(most);
}

std::string describe(std::string_view verb, const abi::ncclNetCommAttr_v11_t& one) {
  return fmt::format("{} {} peers over {} connections each", verb,
                     range(one.minConcurrentPeers, one.maxConcurrentPeers),
                     range(one.minFlowsPerPeer, one.maxFlowsPerPeer));
}

std::string bits(std::uint32_t value) {
  return value == static_cast<std::uint32_t>(abi::NCCL_NET_ATTR_UNDEF) ? "?" : fmt::format("{:#x}", value);
}

}  // namespace

bool NetAttributes::Direction::set(const abi::ncclNetCommAttr_v11_t& attributes) noexcept {
  bool changed = exchange(most_peers, attributes.maxConcurrentPeers);
  changed |= exchange(least_peers, attributes.minConcurrentPeers);
  changed |= exchange(most_flows, attributes.maxFlowsPerPeer);
  changed |= exchange(least_flows, attributes.minFlowsPerPeer);
  return changed;
}

abi::ncclNetCommAttr_v11_t NetAttributes::Direction::get() const noexcept {
  return {read(most_peers), read(least_peers), read(most_flows), read(least_flows)};
}

bool NetAttributes::set(const abi::ncclNetAttr_v11_t& attributes) noexcept {
  bool changed = send_.set(attributes.sendCommAttr);
  changed |= receive_.set(attributes.recvCommAttr);
  changed |= exchange(operation_, attributes.op);
  changed |= exchange(algorithm_, attributes.algo);
  changed |= exchange(protocol_, attributes.proto);
  return changed;
}

abi::ncclNetAttr_v11_t NetAttributes::get() const noexcept {
  return {send_.get(), receive_.get(), read(operation_), read(algorithm_), read(protocol_)};
}

std::string describe(const abi::ncclNetAttr_v11_t& attributes) {
  return fmt::format("{}, {}, operations {}, algorithms {}, protocols {}",
                     describe("sends to", attributes.sendCommAttr),
                     describe("receives from", attributes.recvCommAttr), bits(attributes.op),
                     bits(attributes.algo), bits(attributes.proto));
}

}  // namespace tombolo::net_plugin
