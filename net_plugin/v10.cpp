// NCCL 2.26 to 2.30: traffic class and profiler, neither of which changes anything for TCP.
#include "net_plugin/edge.h"

namespace tombolo::net_plugin::v10 {
namespace {

abi::Result init(abi::Logger logger, abi::ProfilerCallback) {
  return edge::init_shared(logger, 10);
}

abi::Result listen(int device, void* handle, void** listen_comm) {
  return edge::listen(edge::shared_context(), device, handle, listen_comm);
}

abi::Result connect(int device, abi::CommConfig*, void* handle, void** send_comm, abi::DeviceHandle**) {
  return edge::connect(edge::shared_context(), device, handle, send_comm);
}

abi::Result accept(void* listen_comm, void** receive_comm, abi::DeviceHandle**) {
  return edge::accept(listen_comm, receive_comm);
}

abi::Result send(void* send_comm, void* data, std::size_t size, int, void* memory, void*, void** request) {
  return edge::send(send_comm, data, size, memory, request);
}

abi::Result receive(void* receive_comm, int count, void** data, std::size_t* sizes, int*, void** memories,
                    void**, void** request) {
  return edge::receive_first(receive_comm, count, data, sizes, memories, request);
}

}  // namespace

TOMBOLO_NET_PLUGIN_EXPORT abi::NetV10 ncclNetPlugin_v10;
abi::NetV10 ncclNetPlugin_v10 = {
    .name = edge::name(),
    .init = init,
    .devices = edge::devices,
    .get_properties = edge::get_properties,
    .listen = listen,
    .connect = connect,
    .accept = accept,
    .register_memory = edge::register_memory,
    .register_dma_buf = edge::register_dma_buf,
    .deregister_memory = edge::deregister_memory,
    .send = send,
    .receive = receive,
    .flush = edge::flush,
    .test = edge::test,
    .close_send = edge::close_comm,
    .close_receive = edge::close_comm,
    .close_listen = edge::close_listen,
    .get_device_memory = nullptr,
    .receive_consumed = nullptr,
    .make_virtual_device = nullptr,
};

}  // namespace tombolo::net_plugin::v10
