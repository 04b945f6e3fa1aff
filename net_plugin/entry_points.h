// The functions that NCCL calls, with C signatures, as far as the ABI versions share them. They translate
// between NCCL's untyped pointers and this folder's classes, and let no exception through. tables.cpp puts
// them into NCCL's tables and adapts what differs between the versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "net_plugin/abi/net.h"
#include "net_plugin/comms/comm.h"
#include "net_plugin/comms/context.h"
#include "net_plugin/devices/properties.h"
#include "net_plugin/plugin.h"
#include "net_plugin/result.h"

namespace tombolo::net_plugin::entry {

/// TOMBOLO_NET_NAME; read when the library is loaded, since NCCL may compare names before it calls init.
const char* name() noexcept;

/// `profiler` is null before v10.
abi::ncclResult_t init_shared(abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler,
                              int abi_version) noexcept;
/// `config` may be null.
abi::ncclResult_t init_context(void** context, const abi::ncclNetCommConfig_v10_t* config,
                               abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler,
                               int abi_version) noexcept;
abi::ncclResult_t finalize(void* context) noexcept;

abi::ncclResult_t set_attributes(void* context, abi::ncclNetAttr_v11_t* attributes) noexcept;

abi::ncclResult_t devices(int* count) noexcept;
/// Makes one device of several. Where that cannot be, it says why at NCCL's level INFO, because NCCL asks for
/// devices that it takes for ports of one NIC and goes on without.
abi::ncclResult_t make_device(int* index, const int* parts, int count, std::size_t most) noexcept;

abi::ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept;
/// `config`: of this connection; null: the context's.
abi::ncclResult_t connect(void* context, int device, const abi::ncclNetCommConfig_v10_t* config, void* handle,
                          void** send_comm) noexcept;
abi::ncclResult_t accept(void* listen_comm, void** receive_comm) noexcept;

/// The shared context, for the versions whose functions get none. It is null before init, and the functions
/// above reject that.
void* shared_context() noexcept;

abi::ncclResult_t register_memory(void* comm, void* data, std::size_t size, int type, void** memory) noexcept;
abi::ncclResult_t register_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                                   int fd, void** memory) noexcept;
abi::ncclResult_t deregister_memory(void* comm, void* memory) noexcept;

/// `parent` is the event of NCCL's profiler to which the message belongs, or null.
abi::ncclResult_t send(void* send_comm, void* data, std::size_t size, int tag, void* memory, void* parent,
                       void** request) noexcept;
/// `memories` may be null, and so may each of them.
abi::ncclResult_t receive(void* receive_comm, int count, void** data, const std::size_t* sizes,
                          const int* tags, void** memories, void** parents, void** request) noexcept;
abi::ncclResult_t flush(void* receive_comm, int count, void** data, int* sizes, void** memories,
                        void** request) noexcept;
abi::ncclResult_t test(void* request, int* done, int* sizes) noexcept;

abi::ncclResult_t close_comm(void* comm) noexcept;
abi::ncclResult_t close_listen(void* listen_comm) noexcept;

/// Converts a size of v6 to v8. A negative int becomes a size that no message has, which send() and receive()
/// reject.
inline std::size_t size_of(int size) noexcept {
  return size < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(size);
}
inline std::size_t size_of(std::size_t size) noexcept {
  return size;
}

template <typename Properties>
abi::ncclResult_t get_properties(int device, Properties* properties) noexcept {
  Plugin& plugin = Plugin::instance();
  return guarded(plugin.log(), "getProperties", [&] {
    const std::shared_ptr<const Node> node = plugin.node();
    // NCCL reads the texts for as long as the library is loaded; the devices live as long.
    const NetDevice& found = node->devices->at(device);
    fill(*properties, found, node->groups ? kMaxReceives : 1, node->gpu->promise(found.host.nics),
         node->router.overlong);
  });
}

}  // namespace tombolo::net_plugin::entry
