// The tables that NCCL looks up, one for each version of its interface (abi/net_v6.h to net_v12.h); NCCL
// takes the newest that it knows. Of what the versions add, Tombolo leaves out device offload (v7), whose
// functions stay null.
#include <array>

#include "net_plugin/entry_points.h"

namespace tombolo::net_plugin {
namespace {

// The versions pass different arguments. Each name has an overload per argument list, and a table's member
// selects the one of its own type.

template <int version>
abi::ncclResult_t init(abi::ncclDebugLogger_t logger) {
  return entry::init_shared(logger, nullptr, version);
}
template <int version>
abi::ncclResult_t init(abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler) {
  return entry::init_shared(logger, profiler, version);
}
template <int version>
abi::ncclResult_t init(void** context, std::uint64_t, abi::ncclNetCommConfig_v10_t* config,
                       abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler) {
  return entry::init_context(context, config, logger, profiler, version);
}

template <typename Properties>
abi::ncclResult_t make_device(int* index, Properties* properties) {
  return entry::make_device(index, properties->devs, properties->ndevs, std::size(properties->devs));
}

using entry::listen;
abi::ncclResult_t listen(int device, void* handle, void** listen_comm) {
  return listen(entry::shared_context(), device, handle, listen_comm);
}

abi::ncclResult_t connect(int device, void* handle, void** send_comm) {
  return entry::connect(entry::shared_context(), device, nullptr, handle, send_comm);
}
abi::ncclResult_t connect(int device, void* handle, void** send_comm, abi::ncclNetDeviceHandle_v7_t**) {
  return connect(device, handle, send_comm);
}
abi::ncclResult_t connect(int device, abi::ncclNetCommConfig_v10_t* config, void* handle, void** send_comm,
                          abi::ncclNetDeviceHandle_v7_t**) {
  return entry::connect(entry::shared_context(), device, config, handle, send_comm);
}
abi::ncclResult_t connect(void* context, int device, void* handle, void** send_comm,
                          abi::ncclNetDeviceHandle_v7_t**) {
  return entry::connect(context, device, nullptr, handle, send_comm);
}

using entry::accept;
abi::ncclResult_t accept(void* listen_comm, void** receive_comm, abi::ncclNetDeviceHandle_v7_t**) {
  return accept(listen_comm, receive_comm);
}

template <typename Size>
abi::ncclResult_t register_memory(void* comm, void* data, Size size, int type, void** memory) {
  return entry::register_memory(comm, data, entry::size_of(size), type, memory);
}

template <typename Size>
abi::ncclResult_t send(void* send_comm, void* data, Size size, int tag, void* memory, void** request) {
  return entry::send(send_comm, data, entry::size_of(size), tag, memory, nullptr, request);
}
template <typename Size>
abi::ncclResult_t send(void* send_comm, void* data, Size size, int tag, void* memory, void* parent,
                       void** request) {
  return entry::send(send_comm, data, entry::size_of(size), tag, memory, parent, request);
}

template <typename Size>
abi::ncclResult_t receive(void* receive_comm, int count, void** data, Size* sizes, int* tags, void** memories,
                          void** parents, void** request) {
  std::array<std::size_t, kMaxReceives> whole{};
  for (std::size_t i = 0; i < whole.size() && static_cast<int>(i) < count; ++i)
    whole[i] = entry::size_of(sizes[i]);
  return entry::receive(receive_comm, count, data, whole.data(), tags, memories, parents, request);
}
template <typename Size>
abi::ncclResult_t receive(void* receive_comm, int count, void** data, Size* sizes, int* tags, void** memories,
                          void** request) {
  return receive(receive_comm, count, data, sizes, tags, memories, static_cast<void**>(nullptr), request);
}

template <typename Table, int version>
Table table() {
  Table made{};  // members that are not named here say "not offered"
  made.name = entry::name();
  made.init = init<version>;
  made.devices = entry::devices;
  made.getProperties = entry::get_properties;
  made.listen = listen;
  made.connect = connect;
  made.accept = accept;
  made.regMr = register_memory;
  made.regMrDmaBuf = entry::register_dma_buf;
  made.deregMr = entry::deregister_memory;
  made.isend = send;
  made.irecv = receive;
  made.iflush = entry::flush;
  made.test = entry::test;
  made.closeSend = entry::close_comm;
  made.closeRecv = entry::close_comm;
  made.closeListen = entry::close_listen;
  if constexpr (requires { made.makeVDevice; }) made.makeVDevice = make_device;
  if constexpr (requires { made.finalize; }) made.finalize = entry::finalize;
  if constexpr (requires { made.setNetAttr; }) made.setNetAttr = entry::set_attributes;
  return made;
}

}  // namespace

// The library's version script hides every other symbol.
extern "C" {
[[gnu::visibility("default")]] abi::ncclNet_v6_t ncclNetPlugin_v6 = table<abi::ncclNet_v6_t, 6>();
[[gnu::visibility("default")]] abi::ncclNet_v7_t ncclNetPlugin_v7 = table<abi::ncclNet_v7_t, 7>();
[[gnu::visibility("default")]] abi::ncclNet_v8_t ncclNetPlugin_v8 = table<abi::ncclNet_v8_t, 8>();
[[gnu::visibility("default")]] abi::ncclNet_v9_t ncclNetPlugin_v9 = table<abi::ncclNet_v9_t, 9>();
[[gnu::visibility("default")]] abi::ncclNet_v10_t ncclNetPlugin_v10 = table<abi::ncclNet_v10_t, 10>();
[[gnu::visibility("default")]] abi::ncclNet_v11_t ncclNetPlugin_v11 = table<abi::ncclNet_v11_t, 11>();
[[gnu::visibility("default")]] abi::ncclNet_v12_t ncclNetPlugin_v12 = table<abi::ncclNet_v12_t, 12>();
}

}  // namespace tombolo::net_plugin
