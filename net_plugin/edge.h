// The plugin's functions with C signatures, as far as the ABI versions share them. tables.cpp puts them
// into NCCL's tables, adapting what differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "net_plugin/abi/net.h"
#include "net_plugin/comm.h"
#include "net_plugin/context.h"
#include "net_plugin/process.h"
#include "net_plugin/result.h"

namespace tombolo::net_plugin::edge {

/// TOMBOLO_NET_NAME; read when the library is loaded, since NCCL may compare names before it calls init.
const char* name() noexcept;

abi::Result init_shared(abi::Logger logger, int abi_version) noexcept;
abi::Result init_context(void** context, abi::Logger logger, int abi_version) noexcept;
abi::Result finalize(void* context) noexcept;

abi::Result devices(int* count) noexcept;

abi::Result listen(void* context, int device, void* handle, void** listen_comm) noexcept;
abi::Result connect(void* context, int device, void* handle, void** send_comm) noexcept;
abi::Result accept(void* listen_comm, void** receive_comm) noexcept;

/// The shared context for the versions that pass none; null before init, which the functions above reject.
void* shared_context() noexcept;

abi::Result register_memory(void* comm, void* data, std::size_t size, int kind, void** memory) noexcept;
abi::Result register_dma_buf(void* comm, void* data, std::size_t size, int kind, std::uint64_t offset, int fd,
                             void** memory) noexcept;
abi::Result deregister_memory(void* comm, void* memory) noexcept;

abi::Result send(void* send_comm, void* data, std::size_t size, void* memory, void** request) noexcept;
abi::Result receive(void* receive_comm, int count, void* data, std::size_t size, void* memory,
                    void** request) noexcept;
abi::Result flush(void* receive_comm, int count, void** data, int* sizes, void** memories,
                  void** request) noexcept;
abi::Result test(void* request, int* done, int* sizes) noexcept;

abi::Result close_comm(void* comm) noexcept;
abi::Result close_listen(void* listen_comm) noexcept;

/// A negative int (v6 to v8) becomes a size that no message has, which send() and receive() reject.
inline std::size_t size_of(int size) noexcept {
  return size < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(size);
}
inline std::size_t size_of(std::size_t size) noexcept {
  return size;
}

template <typename Properties>
abi::Result get_properties(int device, Properties* properties) noexcept {
  Process& process = Process::instance();
  return guarded(process.log(), "getProperties", [&] {
    auto node = process.node();
    if (device < 0 || static_cast<std::size_t>(device) >= node->devices.size()) {
      fail(Cause::kInvalidUsage, "device {} does not exist: there are {}", device, node->devices.size());
    }
    // NCCL reads the texts for as long as the library is loaded; the node lives as long.
    const NetDevice& found = node->devices[static_cast<std::size_t>(device)];
    *properties = Properties{};
    properties->name = const_cast<char*>(found.name.c_str());
    properties->pci_path = found.pci_path.empty() ? nullptr : const_cast<char*>(found.pci_path.c_str());
    properties->guid = found.guid;
    properties->pointer_support = abi::kHostPointer;
    properties->speed = found.speed_megabits;
    properties->most_comms = 65536;  // file descriptors are the true limit; NCCL's sockets claim as many
    properties->most_receives = 1;
    if constexpr (requires { properties->net_device_type; }) properties->net_device_type = abi::kHostDevice;
    if constexpr (requires { properties->group; }) {
      properties->group.count = 1;
      properties->group.devices[0] = device;
      properties->most_point_to_point_bytes = abi::kLargestMessage;
      properties->most_collective_bytes = abi::kLargestMessage;
    }
    if constexpr (requires { properties->most_requests_in_one; }) properties->most_requests_in_one = 1;
    if constexpr (requires { properties->rail; }) {
      properties->rail = abi::kUndefined;
      properties->plane = abi::kUndefined;
    }
  });
}

}  // namespace tombolo::net_plugin::edge
