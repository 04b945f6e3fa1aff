// NCCL 2.20 to 2.30: sizes of registrations become size_t.
#include "net_plugin/edge.h"

namespace tombolo::net_plugin::v8 {
namespace {

abi::Result init(abi::Logger logger) {
  return edge::init_shared(logger, 8);
}

abi::Result listen(int device, void* handle, void** listen_comm) {
  return edge::listen(edge::shared_context(), device, handle, listen_comm);
}

abi::Result connect(int device, void* handle, void** send_comm, abi::DeviceHandle**) {
  return edge::connect(edge::shared_context(), device, handle, send_comm);
}

abi::Result accept(void* listen_comm, void** receive_comm, abi::DeviceHandle**) {
  return edge::accept(listen_comm, receive_comm);
}

abi::Result send(void* send_comm, void* data, int size, int, void* memory, void** request) {
  return edge::send(send_comm, data, edge::size_of(size), memory, request);
}

abi::Result receive(void* receive_comm, int count, void** data, int* sizes, int*, void** memories,
                    void** request) {
  return edge::receive_first(receive_comm, count, data, sizes, memories, request);
}

}  // namespace

TOMBOLO_NET_PLUGIN_EXPORT abi::NetV8 ncclNetPlugin_v8;
abi::NetV8 ncclNetPlugin_v8 = {
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
};

}  // namespace tombolo::net_plugin::v8
