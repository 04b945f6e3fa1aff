// The function tables that NCCL looks up as ncclNetPlugin_v6 ... ncclNetPlugin_v12. What each function must
// do is told in docs/net-plugin.md. A null member says "not offered"; NCCL checks those that may be null.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/config.h"
#include "net_plugin/abi/constants.h"
#include "net_plugin/abi/logger.h"
#include "net_plugin/abi/properties.h"

namespace tombolo::net_plugin::abi {

struct NetV6 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, PropertiesV6* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, void* handle, void** send_comm);
  Result (*accept)(void* listen_comm, void** receive_comm);
  Result (*register_memory)(void* comm, void* data, int size, int kind, void** memory);
  Result (*register_dma_buf)(void* comm, void* data, std::size_t size, int kind, std::uint64_t offset, int fd,
                             void** memory);
  Result (*deregister_memory)(void* comm, void* memory);
  Result (*send)(void* send_comm, void* data, int size, int tag, void* memory, void** request);
  Result (*receive)(void* receive_comm, int count, void** data, int* sizes, int* tags, void** memories,
                    void** request);
  Result (*flush)(void* receive_comm, int count, void** data, int* sizes, void** memories, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
};

/// v7 and v8 differ in the properties and in the type of register_memory's size.
template <typename Properties, typename MemorySize>
struct NetV7Or8 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, Properties* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, void* handle, void** send_comm, DeviceHandle** device_comm);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_comm);
  Result (*register_memory)(void* comm, void* data, MemorySize size, int kind, void** memory);
  Result (*register_dma_buf)(void* comm, void* data, std::size_t size, int kind, std::uint64_t offset, int fd,
                             void** memory);
  Result (*deregister_memory)(void* comm, void* memory);
  Result (*send)(void* send_comm, void* data, int size, int tag, void* memory, void** request);
  Result (*receive)(void* receive_comm, int count, void** data, int* sizes, int* tags, void** memories,
                    void** request);
  Result (*flush)(void* receive_comm, int count, void** data, int* sizes, void** memories, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_memory)(void* comm, void* memory, void** device_memory);
  Result (*receive_consumed)(void* receive_comm, int count, void* request);
};

using NetV7 = NetV7Or8<PropertiesV7, int>;
using NetV8 = NetV7Or8<PropertiesV8, std::size_t>;

struct NetV9 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, PropertiesV9* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, void* handle, void** send_comm, DeviceHandle** device_comm);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_comm);
  Result (*register_memory)(void* comm, void* data, std::size_t size, int kind, void** memory);
  Result (*register_dma_buf)(void* comm, void* data, std::size_t size, int kind, std::uint64_t offset, int fd,
                             void** memory);
  Result (*deregister_memory)(void* comm, void* memory);
  Result (*send)(void* send_comm, void* data, std::size_t size, int tag, void* memory, void** request);
  Result (*receive)(void* receive_comm, int count, void** data, std::size_t* sizes, int* tags,
                    void** memories, void** request);
  Result (*flush)(void* receive_comm, int count, void** data, int* sizes, void** memories, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_memory)(void* comm, void* memory, void** device_memory);
  Result (*receive_consumed)(void* receive_comm, int count, void* request);
  Result (*make_virtual_device)(int* device, DeviceGroup<4>* group);
};

struct NetV10 {
  const char* name;
  Result (*init)(Logger logger, ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, PropertiesV10* properties);
  Result (*listen)(int device, void* handle, void** listen_comm);
  Result (*connect)(int device, CommConfig* config, void* handle, void** send_comm,
                    DeviceHandle** device_comm);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_comm);
  Result (*register_memory)(void* comm, void* data, std::size_t size, int kind, void** memory);
  Result (*register_dma_buf)(void* comm, void* data, std::size_t size, int kind, std::uint64_t offset, int fd,
                             void** memory);
  Result (*deregister_memory)(void* comm, void* memory);
  Result (*send)(void* send_comm, void* data, std::size_t size, int tag, void* memory, void* profiler_parent,
                 void** request);
  Result (*receive)(void* receive_comm, int count, void** data, std::size_t* sizes, int* tags,
                    void** memories, void** profiler_parents, void** request);
  Result (*flush)(void* receive_comm, int count, void** data, int* sizes, void** memories, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_memory)(void* comm, void* memory, void** device_memory);
  Result (*receive_consumed)(void* receive_comm, int count, void* request);
  Result (*make_virtual_device)(int* device, DeviceGroup<4>* group);
};

/// v11 and v12 differ in the properties and in how many devices a group may have.
template <typename Properties, typename Group>
struct NetV11Or12 {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, CommConfig* config, Logger logger,
                 ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*get_properties)(int device, Properties* properties);
  Result (*listen)(void* context, int device, void* handle, void** listen_comm);
  Result (*connect)(void* context, int device, void* handle, void** send_comm, DeviceHandle** device_comm);
  Result (*accept)(void* listen_comm, void** receive_comm, DeviceHandle** device_comm);
  Result (*register_memory)(void* comm, void* data, std::size_t size, int kind, void** memory);
  Result (*register_dma_buf)(void* comm, void* data, std::size_t size, int kind, std::uint64_t offset, int fd,
                             void** memory);
  Result (*deregister_memory)(void* comm, void* memory);
  Result (*send)(void* send_comm, void* data, std::size_t size, int tag, void* memory, void* profiler_parent,
                 void** request);
  Result (*receive)(void* receive_comm, int count, void** data, std::size_t* sizes, int* tags,
                    void** memories, void** profiler_parents, void** request);
  Result (*flush)(void* receive_comm, int count, void** data, int* sizes, void** memories, void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_receive)(void* receive_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_memory)(void* comm, void* memory, void** device_memory);
  Result (*receive_consumed)(void* receive_comm, int count, void* request);
  Result (*make_virtual_device)(int* device, Group* group);
  Result (*finalize)(void* context);
  Result (*set_attributes)(void* context, NetAttributes* attributes);
};

using NetV11 = NetV11Or12<PropertiesV11, DeviceGroup<4>>;
using NetV12 = NetV11Or12<PropertiesV12, DeviceGroup<8>>;

static_assert(sizeof(NetV6) == 17 * sizeof(void*) && sizeof(NetV7) == 19 * sizeof(void*) &&
              sizeof(NetV8) == 19 * sizeof(void*) && sizeof(NetV9) == 20 * sizeof(void*) &&
              sizeof(NetV10) == 20 * sizeof(void*) && sizeof(NetV11) == 22 * sizeof(void*) &&
              sizeof(NetV12) == 22 * sizeof(void*));
static_assert(offsetof(NetV6, close_listen) == 16 * sizeof(void*) &&
              offsetof(NetV7, receive_consumed) == 18 * sizeof(void*) &&
              offsetof(NetV9, make_virtual_device) == 19 * sizeof(void*) &&
              offsetof(NetV11, finalize) == 20 * sizeof(void*) &&
              offsetof(NetV12, set_attributes) == 21 * sizeof(void*));

}  // namespace tombolo::net_plugin::abi
