#include "net_plugin/comms/events.h"

#include "net_plugin/abi/net_events.h"

namespace tombolo::net_plugin {
namespace {

// What ibv_post_send(3) and a completion of a receive call these.
constexpr int kRdmaWriteWithImmediate = 1;
constexpr int kReceive = 128;

constexpr std::int64_t kDescriptionVersion = 1;

}  // namespace

Events::Events(abi::ncclProfilerCallback_t callback, const transport::Route& route, std::uint64_t connection,
               bool send)
    : callback_(callback), described_{&route, connection, send, 0}, rdma_(route.transport == "rdma") {}

void Events::start(Part& part, void* parent, std::size_t bytes) noexcept {
  const auto number = static_cast<int>(described_.connection);
  ++posted_;
  if (own_profiler_listens.load(std::memory_order_relaxed)) {
    described_.bytes = bytes;
    callback_(&part.event, abi::ncclProfilerNetEventStart, parent, kOwnEventId, &described_);
  } else if (rdma_) {
    abi::ncclProfilerNetIbDescr_v1_t descr{
        abi::ncclProfileQp,
        {0, posted_, described_.send ? kRdmaWriteWithImmediate : kReceive, number, bytes}};
    callback_(&part.event, abi::ncclProfilerNetEventStart, parent,
              abi::NCCL_PROFILER_NET_TYPE_IB | kDescriptionVersion, &descr);
  } else {
    abi::ncclProfilerNetSockDescr_v1_t descr{abi::ncclProfileSocket,
                                             {number, described_.send ? 0 : 1, bytes}};
    callback_(&part.event, abi::ncclProfilerNetEventStart, parent,
              abi::NCCL_PROFILER_NET_TYPE_SOCK | kDescriptionVersion, &descr);
  }
}

void Events::stop(Part& part) noexcept {
  if (own_profiler_listens.load(std::memory_order_relaxed)) {
    NetEvent end{nullptr, described_.connection, described_.send,
                 part.state == Part::State::kDone ? part.bytes : 0};
    callback_(&part.event, abi::ncclProfilerNetEventUpdateAndStop, nullptr, 0, &end);
  } else {
    callback_(&part.event, abi::ncclProfilerNetEventStop, nullptr, 0, nullptr);
  }
  part.event = nullptr;
}

}  // namespace tombolo::net_plugin
