// The tables of NCCL's interface of one-sided operations; entry_points.h says when they offer anything.
#include "net_plugin/abi/rma.h"
#include "net_plugin/entry_points.h"
#include "net_plugin/rma/entry_points.h"

namespace tombolo::net_plugin {
namespace {

using rma_entry::Place;

// Each name has an overload per argument list, and a table's member selects the one of its own type.

template <typename Config>
abi::ncclResult_t create_context(void* group, Config* config, void** context) {
  return rma_entry::create_context(group, config->nContexts, config->trafficClass, context);
}
abi::ncclResult_t create_context(void* group, abi::ncclRmaConfig_v13_t* config, void** context,
                                 abi::ncclNetDeviceHandle_v11_t** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return rma_entry::create_context(group, config->nContexts, config->trafficClass, context);
}

abi::ncclResult_t register_window(void* group, void* data, std::size_t size, int type, std::uint64_t flags,
                                  void** window) {
  return rma_entry::register_window(group, data, size, type, flags, window);
}
abi::ncclResult_t register_window(void* group, void* data, std::size_t size, int type, std::uint64_t flags,
                                  void** window, void** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return rma_entry::register_window(group, data, size, type, flags, window);
}

abi::ncclResult_t register_dma_buf(void* group, void* data, std::size_t size, int type, std::uint64_t offset,
                                   int file, std::uint64_t flags, void** window) {
  return rma_entry::register_dma_buf(group, data, size, type, offset, file, flags, window);
}
abi::ncclResult_t register_dma_buf(void* group, void* data, std::size_t size, int type, std::uint64_t offset,
                                   int file, std::uint64_t flags, void** window, void** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return rma_entry::register_dma_buf(group, data, size, type, offset, file, flags, window);
}

// v15's flags only allow to wait for more.
abi::ncclResult_t put(void* context, int index, std::uint64_t from, void* from_window, std::size_t size,
                      std::uint64_t to, void* to_window, std::uint32_t rank, void** request) {
  return rma_entry::put(context, index, {from, from_window}, size, {to, to_window}, rank, request);
}
abi::ncclResult_t put(void* context, int index, std::uint64_t from, void* from_window, std::size_t size,
                      std::uint64_t to, void* to_window, std::uint32_t rank, std::uint32_t, void** request) {
  return rma_entry::put(context, index, {from, from_window}, size, {to, to_window}, rank, request);
}

abi::ncclResult_t put_signal(void* context, int index, std::uint64_t from, void* from_window,
                             std::size_t size, std::uint64_t to, void* to_window, std::uint32_t rank,
                             std::uint64_t signal, void* signal_window, std::uint64_t value, std::uint32_t op,
                             void** request) {
  return rma_entry::put_signal(context, index, {from, from_window}, size, {to, to_window}, rank,
                               {signal, signal_window}, value, op, request);
}
abi::ncclResult_t put_signal(void* context, int index, std::uint64_t from, void* from_window,
                             std::size_t size, std::uint64_t to, void* to_window, std::uint32_t rank,
                             std::uint64_t signal, void* signal_window, std::uint64_t value, std::uint32_t op,
                             bool, void** request) {
  return rma_entry::put_signal(context, index, {from, from_window}, size, {to, to_window}, rank,
                               {signal, signal_window}, value, op, request);
}
abi::ncclResult_t put_signal(void* context, int index, std::uint64_t from, void* from_window,
                             std::size_t size, std::uint64_t to, void* to_window, std::uint32_t rank,
                             std::uint64_t signal, void* signal_window, std::uint64_t value, std::uint32_t op,
                             bool, std::uint32_t, void** request) {
  return rma_entry::put_signal(context, index, {from, from_window}, size, {to, to_window}, rank,
                               {signal, signal_window}, value, op, request);
}

abi::ncclResult_t get(void* context, int index, std::uint64_t remote, void* remote_window, std::size_t size,
                      std::uint64_t local, void* local_window, std::uint32_t rank, void** request) {
  return rma_entry::get(context, index, {remote, remote_window}, size, {local, local_window}, rank, request);
}
abi::ncclResult_t get(void* context, int index, std::uint64_t remote, void* remote_window, std::size_t size,
                      std::uint64_t local, void* local_window, std::uint32_t rank, std::uint32_t,
                      void** request) {
  return rma_entry::get(context, index, {remote, remote_window}, size, {local, local_window}, rank, request);
}

template <typename Table>
Table rma_table() {
  Table made{};
  made.name = entry::name();
  made.init = rma_entry::init;
  made.devices = rma_entry::devices;
  made.getProperties = entry::get_properties<abi::ncclNetProperties_v12_t>;
  made.listen = rma_entry::listen;
  made.connect = rma_entry::connect;
  made.createContext = create_context;
  made.regMrSym = register_window;
  made.regMrSymDmaBuf = register_dma_buf;
  made.deregMrSym = rma_entry::deregister_window;
  made.destroyContext = rma_entry::destroy_context;
  made.closeColl = rma_entry::close_group;
  made.closeListen = rma_entry::close_listening;
  made.iput = put;
  made.iputSignal = put_signal;
  made.iget = get;
  made.iflush = rma_entry::flush;
  made.test = rma_entry::test;
  if constexpr (requires { made.rmaProgress; }) made.rmaProgress = rma_entry::progress;
  if constexpr (requires { made.ginProgress; }) made.ginProgress = rma_entry::progress;
  made.queryLastError = rma_entry::query_last_error;
  made.finalize = rma_entry::finalize;
  return made;
}

/// A layout that was public before the release had one more function at the end, which may be null.
struct TableWithMore {
  abi::ncclRma_v15_t table = rma_table<abi::ncclRma_v15_t>();
  void* more = nullptr;
};

}  // namespace

// The library's version script hides every other symbol.
extern "C" {
[[gnu::visibility("default")]] abi::ncclRma_v13_t ncclRmaPlugin_v13 = rma_table<abi::ncclRma_v13_t>();
[[gnu::visibility("default")]] abi::ncclRma_v14_t ncclRmaPlugin_v14 = rma_table<abi::ncclRma_v14_t>();
[[gnu::visibility("default")]] TableWithMore ncclRmaPlugin_v15;
}

}  // namespace tombolo::net_plugin
