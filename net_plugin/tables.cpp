// The tables that NCCL looks up, one for each version of its ABI; it takes the newest that it knows.
//
//   v6   NCCL 2.13 to 2.27
//   v7   NCCL 2.19 to 2.29: adds device offload, which Tombolo leaves null
//   v8   NCCL 2.20 to 2.30: sizes of registrations become size_t
//   v9   NCCL 2.24 to 2.30: sizes of messages too; virtual devices, which Tombolo does not offer
//   v10  NCCL 2.26 to 2.30: traffic class and profiler, neither of which changes anything for TCP
//   v11  NCCL 2.28 to 2.30: a context per communicator, and finalize
//   v12  NCCL 2.30: rails and planes in the properties
#include "net_plugin/edge.h"

namespace tombolo::net_plugin {
namespace {

// The versions pass different arguments: of the functions of one name a table's member takes the one that has
// its type.

template <int version>
abi::Result init(abi::Logger logger) {
  return edge::init_shared(logger, version);
}
template <int version>
abi::Result init(abi::Logger logger, abi::ProfilerCallback) {
  return edge::init_shared(logger, version);
}
template <int version>
abi::Result init(void** context, std::uint64_t, abi::CommConfig*, abi::Logger logger, abi::ProfilerCallback) {
  return edge::init_context(context, logger, version);
}

using edge::listen;
abi::Result listen(int device, void* handle, void** listen_comm) {
  return listen(edge::shared_context(), device, handle, listen_comm);
}

abi::Result connect(int device, void* handle, void** send_comm) {
  return edge::connect(edge::shared_context(), device, handle, send_comm);
}
abi::Result connect(int device, void* handle, void** send_comm, abi::DeviceHandle**) {
  return connect(device, handle, send_comm);
}
abi::Result connect(int device, abi::CommConfig*, void* handle, void** send_comm, abi::DeviceHandle**) {
  return connect(device, handle, send_comm);
}
abi::Result connect(void* context, int device, void* handle, void** send_comm, abi::DeviceHandle**) {
  return edge::connect(context, device, handle, send_comm);
}

using edge::accept;
abi::Result accept(void* listen_comm, void** receive_comm, abi::DeviceHandle**) {
  return accept(listen_comm, receive_comm);
}

template <typename Size>
abi::Result register_memory(void* comm, void* data, Size size, int kind, void** memory) {
  return edge::register_memory(comm, data, edge::size_of(size), kind, memory);
}

template <typename Size>
abi::Result send(void* send_comm, void* data, Size size, int, void* memory, void** request) {
  return edge::send(send_comm, data, edge::size_of(size), memory, request);
}
template <typename Size>
abi::Result send(void* send_comm, void* data, Size size, int, void* memory, void*, void** request) {
  return edge::send(send_comm, data, edge::size_of(size), memory, request);
}

template <typename Size>
abi::Result receive(void* receive_comm, int count, void** data, Size* sizes, int*, void** memories,
                    void** request) {
  return edge::receive(receive_comm, count, data[0], edge::size_of(sizes[0]),
                       memories != nullptr ? memories[0] : nullptr, request);
}
template <typename Size>
abi::Result receive(void* receive_comm, int count, void** data, Size* sizes, int* tags, void** memories,
                    void**, void** request) {
  return receive(receive_comm, count, data, sizes, tags, memories, request);
}

template <typename Table, int version>
Table table() {
  Table made{};  // members that are not named here say "not offered"
  made.name = edge::name();
  made.init = init<version>;
  made.devices = edge::devices;
  made.get_properties = edge::get_properties;
  made.listen = listen;
  made.connect = connect;
  made.accept = accept;
  made.register_memory = register_memory;
  made.register_dma_buf = edge::register_dma_buf;
  made.deregister_memory = edge::deregister_memory;
  made.send = send;
  made.receive = receive;
  made.flush = edge::flush;
  made.test = edge::test;
  made.close_send = edge::close_comm;
  made.close_receive = edge::close_comm;
  made.close_listen = edge::close_listen;
  if constexpr (requires { made.finalize; }) made.finalize = edge::finalize;
  return made;
}

}  // namespace

// The library's version script hides everything else.
extern "C" {
[[gnu::visibility("default")]] abi::NetV6 ncclNetPlugin_v6 = table<abi::NetV6, 6>();
[[gnu::visibility("default")]] abi::NetV7 ncclNetPlugin_v7 = table<abi::NetV7, 7>();
[[gnu::visibility("default")]] abi::NetV8 ncclNetPlugin_v8 = table<abi::NetV8, 8>();
[[gnu::visibility("default")]] abi::NetV9 ncclNetPlugin_v9 = table<abi::NetV9, 9>();
[[gnu::visibility("default")]] abi::NetV10 ncclNetPlugin_v10 = table<abi::NetV10, 10>();
[[gnu::visibility("default")]] abi::NetV11 ncclNetPlugin_v11 = table<abi::NetV11, 11>();
[[gnu::visibility("default")]] abi::NetV12 ncclNetPlugin_v12 = table<abi::NetV12, 12>();
}

}  // namespace tombolo::net_plugin
