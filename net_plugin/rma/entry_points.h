// The functions of NCCL's interface of one-sided operations, as far as its versions share them. NCCL looks
// for the tables in the network's library too, so they are in every job that uses the plugin, and offer no
// device until TOMBOLO_RMA asks for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/rma.h"

namespace tombolo::net_plugin::rma_entry {

/// Gives a null context where TOMBOLO_RMA is off: NCCL calls no finalize then.
abi::ncclResult_t init(void** context, std::uint64_t, abi::ncclDebugLogger_t logger) noexcept;
abi::ncclResult_t devices(int* count) noexcept;
abi::ncclResult_t listen(void* context, int device, void* handle, void** listening) noexcept;
/// The context is not read: NCCL 2.30 passes that of the network, which may be another plugin's.
abi::ncclResult_t connect(void*, void* handles[], int ranks, int rank, void* listening,
                          void** group) noexcept;
abi::ncclResult_t create_context(void* group, int contexts, int traffic_class, void** context) noexcept;
abi::ncclResult_t register_window(void* group, void* data, std::size_t size, int type, std::uint64_t,
                                  void** window) noexcept;
/// GPU memory is reached by its address; the descriptor is not used.
abi::ncclResult_t register_dma_buf(void* group, void* data, std::size_t size, int, std::uint64_t, int,
                                   std::uint64_t flags, void** window) noexcept;
abi::ncclResult_t deregister_window(void* group, void* window) noexcept;
abi::ncclResult_t destroy_context(void* context) noexcept;
abi::ncclResult_t close_group(void* group) noexcept;
abi::ncclResult_t close_listening(void* listening) noexcept;

/// Memory on this rank: a window and an offset in it.
struct Place {
  std::uint64_t offset;
  void* window;
};

abi::ncclResult_t put(void* context, int index, Place from, std::size_t size, Place to, std::uint32_t rank,
                      void** request) noexcept;
/// All signals are strong: they follow all puts of this rank to that rank.
abi::ncclResult_t put_signal(void* context, int index, Place from, std::size_t size, Place to,
                             std::uint32_t rank, Place signal, std::uint64_t value, std::uint32_t op,
                             void** request) noexcept;
abi::ncclResult_t get(void* context, int index, Place remote, std::size_t size, Place local,
                      std::uint32_t rank, void** request) noexcept;
abi::ncclResult_t flush(void* context, int index, void*, std::uint32_t rank, void** request) noexcept;
abi::ncclResult_t test(void* group, void* request, int* done) noexcept;
abi::ncclResult_t progress(void* context) noexcept;
abi::ncclResult_t query_last_error(void* context, bool* has_error) noexcept;
abi::ncclResult_t finalize(void* context) noexcept;

}  // namespace tombolo::net_plugin::rma_entry
