#include "net_plugin/comms/events.h"

#include "net_plugin/abi/net_events.h"
#include "net_plugin/comms/lanes.h"

namespace tombolo::net_plugin {
namespace {

// What ibv_post_send(3) and a completion of a receive call these.
constexpr int kRdmaWriteWithImmediate = 1;
constexpr int kReceive = 128;

constexpr std::int64_t kDescriptionVersion = 1;

}  // namespace

Events::Events(abi::ncclProfilerCallback_t callback, const transport::Connection& first, bool send)
    : callback_(callback), first_(&first), number_(first.statistics().connection), send_(send) {}

/// As far as it is known: that of the present way of the part's connection, where that has not taken it yet.
const transport::Route& Events::route_of(const Part& part) const noexcept {
  const transport::Connection& connection =
      part.lane != nullptr && part.lane->connection ? *part.lane->connection : *first_;
  const bool taken = part.state == Part::State::kPosted || part.state == Part::State::kDone;
  return taken ? *connection.way_of(part.posted).route : connection.route();
}

std::uint64_t Events::number_of(const Part& part) const noexcept {
  return part.lane != nullptr && part.lane->connection ? part.lane->number : number_;
}

void Events::start(Part& part, void* parent, std::size_t bytes) noexcept {
  const transport::Route& route = route_of(part);
  const std::uint64_t connection = number_of(part);
  const auto number = static_cast<int>(connection);
  ++posted_;
  if (own_profiler_listens.load(std::memory_order_relaxed)) {
    NetEvent begin{&route, connection, send_, bytes};
    callback_(&part.event, abi::ncclProfilerNetEventStart, parent, kOwnEventId, &begin);
  } else if (route.transport == "rdma") {
    abi::ncclProfilerNetIbDescr_v1_t descr{
        abi::ncclProfileQp, {0, posted_, send_ ? kRdmaWriteWithImmediate : kReceive, number, bytes}};
    callback_(&part.event, abi::ncclProfilerNetEventStart, parent,
              abi::NCCL_PROFILER_NET_TYPE_IB | kDescriptionVersion, &descr);
  } else {
    abi::ncclProfilerNetSockDescr_v1_t descr{abi::ncclProfileSocket, {number, send_ ? 0 : 1, bytes}};
    callback_(&part.event, abi::ncclProfilerNetEventStart, parent,
              abi::NCCL_PROFILER_NET_TYPE_SOCK | kDescriptionVersion, &descr);
  }
}

void Events::stop(Part& part) noexcept {
  if (own_profiler_listens.load(std::memory_order_relaxed)) {
    // That of one that failed may be gone, and its lane with it.
    NetEvent end{nullptr, 0, send_, 0};
    if (part.state == Part::State::kDone) end = {&route_of(part), number_of(part), send_, part.bytes};
    callback_(&part.event, abi::ncclProfilerNetEventUpdateAndStop, nullptr, 0, &end);
  } else {
    callback_(&part.event, abi::ncclProfilerNetEventStop, nullptr, 0, nullptr);
  }
  part.event = nullptr;
}

}  // namespace tombolo::net_plugin
