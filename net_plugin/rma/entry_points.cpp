#include "net_plugin/rma/entry_points.h"

#include <cstring>
#include <memory>
#include <vector>

#include "net_plugin/nccl_log.h"
#include "net_plugin/plugin.h"
#include "net_plugin/result.h"
#include "net_plugin/rma/group.h"
#include "net_plugin/rma/parameters.h"

namespace tombolo::net_plugin::rma_entry {
namespace {

using rma::Group;
using rma::Listening;
using rma::Operation;
using rma::Window;

/// NCCL's ctx: what init makes for a communicator.
struct Instance {
  std::shared_ptr<const Node> node;
  Log log;
};

/// NCCL's rmaCtx. The connections are the group's, so that operations of all contexts keep one order.
struct Context {
  Group& group;
  int contexts;
};

bool is_on() {
  return kRmaParameter.choice() != "off";
}

Group& group_of(void* group) {
  return *static_cast<Group*>(group);
}

const Window* window_of(void* window) {
  return static_cast<const Window*>(window);
}

/// Posts an operation by `body`, which takes the group.
template <typename Body>
abi::ncclResult_t post(const char* name, void* context, int index, void** request, Body&& body) noexcept {
  *request = nullptr;
  auto& of = *static_cast<Context*>(context);
  return guarded(of.group.log(), name, [&] {
    if (index < 0 || index >= of.contexts)
      fail(Cause::kInvalidUsage, "context {} of {} was asked for", index, of.contexts);
    *request = body(of.group);
  });
}

}  // namespace

abi::ncclResult_t init(void** context, std::uint64_t, abi::ncclDebugLogger_t logger) noexcept {
  *context = nullptr;
  return guarded(nccl_log(logger, LogLevel::kWarning), "RMA init", [&] {
    if (!is_on()) return;
    // Makes sure that the host is known, also where the network is another plugin's.
    Plugin::instance().open(logger, 12, abi::NCCL_NET_TRAFFIC_CLASS_UNDEF);
    auto made = std::make_unique<Instance>(Instance{Plugin::instance().node(), Plugin::instance().log()});
    made->log.info("one-sided operations (TOMBOLO_RMA={}): put, get and signal over {} devices, {}",
                   kRmaParameter.choice(), made->node->devices->size(),
                   kRmaParameter.choice() == "auto"
                       ? "by RDMA NICs where both ends have them, else by messages"
                       : "by messages");
    *context = made.release();
  });
}

abi::ncclResult_t devices(int* count) noexcept {
  *count = 0;
  Plugin& plugin = Plugin::instance();
  return guarded(plugin.log(), "RMA devices", [&] {
    if (is_on()) *count = static_cast<int>(plugin.node()->devices->size());
  });
}

abi::ncclResult_t listen(void* context, int device, void* handle, void** listening) noexcept {
  *listening = nullptr;
  if (context == nullptr) return abi::ncclInvalidUsage;
  auto& of = *static_cast<Instance*>(context);
  return guarded(of.log, "RMA listen", [&] {
    auto made = std::make_unique<Listening>(of.node, of.node->devices->at(device), of.log);
    const HandleBytes bytes = made->handle();
    std::memcpy(handle, bytes.data(), bytes.size());
    *listening = made.release();
  });
}

abi::ncclResult_t connect(void*, void* handles[], int ranks, int rank, void* listening,
                          void** group) noexcept {
  *group = nullptr;
  auto& at = *static_cast<Listening*>(listening);
  return guarded(at.log, "RMA connect", [&] {
    std::vector<HandleBytes> all(static_cast<std::size_t>(std::max(ranks, 0)));
    for (std::size_t i = 0; i < all.size(); ++i) std::memcpy(all[i].data(), handles[i], all[i].size());
    *group = std::make_unique<Group>(at, all, static_cast<std::uint32_t>(rank)).release();
  });
}

abi::ncclResult_t create_context(void* group, int contexts, int traffic_class, void** context) noexcept {
  *context = nullptr;
  return guarded(group_of(group).log(), "RMA createContext", [&] {
    if (contexts < 1) fail(Cause::kInvalidUsage, "{} contexts: expected one or more", contexts);
    group_of(group).set_traffic_class(traffic_class);
    *context = new Context{group_of(group), contexts};
  });
}

abi::ncclResult_t register_window(void* group, void* data, std::size_t size, int type, std::uint64_t,
                                  void** window) noexcept {
  *window = nullptr;
  return guarded(group_of(group).log(), "RMA regMrSym", [&] {
    *window = group_of(group).add_window({static_cast<std::byte*>(data), size}, type);
  });
}

abi::ncclResult_t register_dma_buf(void* group, void* data, std::size_t size, int, std::uint64_t, int,
                                   std::uint64_t flags, void** window) noexcept {
  return register_window(group, data, size, abi::NCCL_PTR_CUDA, flags, window);
}

abi::ncclResult_t deregister_window(void* group, void* window) noexcept {
  return guarded(group_of(group).log(), "RMA deregMrSym",
                 [&] { group_of(group).remove_window(window_of(window)); });
}

abi::ncclResult_t destroy_context(void* context) noexcept {
  delete static_cast<Context*>(context);
  return abi::ncclSuccess;
}

abi::ncclResult_t close_group(void* group) noexcept {
  delete static_cast<Group*>(group);
  return abi::ncclSuccess;
}

abi::ncclResult_t close_listening(void* listening) noexcept {
  delete static_cast<Listening*>(listening);
  return abi::ncclSuccess;
}

abi::ncclResult_t put(void* context, int index, Place from, std::size_t size, Place to, std::uint32_t rank,
                      void** request) noexcept {
  return post("RMA iput", context, index, request, [&](Group& group) {
    return group.put(rank, window_of(from.window), from.offset, size, window_of(to.window), to.offset, {});
  });
}

abi::ncclResult_t put_signal(void* context, int index, Place from, std::size_t size, Place to,
                             std::uint32_t rank, Place signal, std::uint64_t value, std::uint32_t op,
                             void** request) noexcept {
  return post("RMA iputSignal", context, index, request, [&](Group& group) {
    if (op != abi::NCCL_NET_SIGNAL_OP_INC && op != abi::NCCL_NET_SIGNAL_OP_ADD)
      fail(Cause::kInvalidUsage, "signal operation {} for rank {}: 1 adds one, 2 adds the value", op, rank);
    if (signal.window == nullptr) fail(Cause::kInvalidUsage, "a signal for rank {} without its window", rank);
    const std::uint64_t add = op == abi::NCCL_NET_SIGNAL_OP_INC ? 1 : value;
    return group.put(rank, window_of(from.window), from.offset, size, window_of(to.window), to.offset,
                     {window_of(signal.window), signal.offset, add});
  });
}

abi::ncclResult_t get(void* context, int index, Place remote, std::size_t size, Place local,
                      std::uint32_t rank, void** request) noexcept {
  return post("RMA iget", context, index, request, [&](Group& group) {
    return group.get(rank, window_of(remote.window), remote.offset, size, window_of(local.window),
                     local.offset);
  });
}

abi::ncclResult_t flush(void* context, int index, void*, std::uint32_t rank, void** request) noexcept {
  return post("RMA iflush", context, index, request, [&](Group& group) { return group.flush(rank); });
}

abi::ncclResult_t test(void* group, void* request, int* done) noexcept {
  *done = 0;
  return guarded(group_of(group).log(), "RMA test",
                 [&] { *done = group_of(group).test(static_cast<Operation*>(request)) ? 1 : 0; });
}

abi::ncclResult_t progress(void* context) noexcept {
  Group& group = static_cast<Context*>(context)->group;
  return guarded(group.log(), "RMA progress", [&] { group.progress(); });
}

abi::ncclResult_t query_last_error(void* context, bool* has_error) noexcept {
  Group& group = static_cast<Context*>(context)->group;
  return guarded(group.log(), "RMA queryLastError", [&] { *has_error = group.failed(); });
}

abi::ncclResult_t finalize(void* context) noexcept {
  delete static_cast<Instance*>(context);
  return abi::ncclSuccess;
}

}  // namespace tombolo::net_plugin::rma_entry
