// NCCL 2.30: rails and planes in the properties.
#include "net_plugin/edge.h"

namespace tombolo::net_plugin::v12 {
namespace {

abi::Result init(void** context, std::uint64_t, abi::CommConfig*, abi::Logger logger, abi::ProfilerCallback) {
  return edge::init_context(context, logger, 12);
}

abi::Result connect(void* context, int device, void* handle, void** send_comm, abi::DeviceHandle**) {
  return edge::connect(context, device, handle, send_comm);
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

TOMBOLO_NET_PLUGIN_EXPORT abi::NetV12 ncclNetPlugin_v12;
abi::NetV12 ncclNetPlugin_v12 = {
    .name = edge::name(),
    .init = init,
    .devices = edge::devices,
    .get_properties = edge::get_properties,
    .listen = edge::listen,
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
    .finalize = edge::finalize,
    .set_attributes = nullptr,
};

}  // namespace tombolo::net_plugin::v12
