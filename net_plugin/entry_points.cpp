#include "net_plugin/entry_points.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "net_plugin/nccl_log.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin::entry {
namespace {

Comm& comm_of(void* comm) {
  return *static_cast<Comm*>(comm);
}

/// Whether the arguments can be right. A null buffer with a size, or a size beyond what the properties
/// promise, is an error of the caller.
bool valid(const void* data, std::size_t size) noexcept {
  return size <= kMaxMessageBytes && (data != nullptr || size == 0);
}

abi::ncclResult_t post(Comm::Direction direction, void* comm, void* data, std::size_t size, void* memory,
                       void** request) noexcept {
  // The request is set in any case, because NCCL may have preset it to NCCL_NET_OPTIONAL_RECV_COMPLETION.
  *request = nullptr;
  if (!valid(data, size)) {
    report(comm_of(comm).log(), direction == Comm::Direction::kSend ? "isend" : "irecv",
           "a null buffer, or a size that is negative or above 1 GiB");
    return abi::ncclInvalidArgument;
  }
  Request* posted = nullptr;
  abi::ncclResult_t result = comm_of(comm).post(direction, {static_cast<std::byte*>(data), size},
                                                static_cast<transport::Memory*>(memory), posted);
  *request = posted;
  return result;
}

}  // namespace

const char* name() noexcept {
  static const auto text = [] {
    std::array<char, 64> buffer{};
    const char* set = std::getenv(kNetNameParameter.name.data());
    std::string_view chosen = set != nullptr && *set != '\0' ? set : kNetNameParameter.default_value;
    chosen.copy(buffer.data(), buffer.size() - 1);
    return buffer;
  }();
  return text.data();
}

abi::ncclResult_t init_shared(abi::ncclDebugLogger_t logger, int abi_version) noexcept {
  return guarded(nccl_log(logger, LogLevel::kWarning), "init",
                 [&] { Plugin::instance().open_shared(logger, abi_version); });
}

abi::ncclResult_t init_context(void** context, abi::ncclDebugLogger_t logger, int abi_version) noexcept {
  return guarded(nccl_log(logger, LogLevel::kWarning), "init",
                 [&] { *context = Plugin::instance().open(logger, abi_version).release(); });
}

abi::ncclResult_t finalize(void* context) noexcept {
  delete static_cast<Context*>(context);
  return abi::ncclSuccess;
}

abi::ncclResult_t devices(int* count) noexcept {
  Plugin& plugin = Plugin::instance();
  return guarded(plugin.log(), "devices", [&] { *count = static_cast<int>(plugin.node()->devices.size()); });
}

void* shared_context() noexcept {
  void* context = nullptr;
  Plugin& plugin = Plugin::instance();
  guarded(plugin.log(), "context", [&] { context = &plugin.shared(); });
  return context;
}

abi::ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  if (context == nullptr) return abi::ncclInvalidUsage;
  auto* owner = static_cast<Context*>(context);
  return guarded(owner->log(), "listen", [&] {
    auto comm = owner->listen(device);
    HandleBytes bytes = comm->handle();
    std::memcpy(handle, bytes.data(), bytes.size());
    *listen_comm = comm.release();
  });
}

abi::ncclResult_t connect(void* context, int device, void* handle, void** send_comm) noexcept {
  *send_comm = nullptr;
  if (context == nullptr) return abi::ncclInvalidUsage;
  auto* owner = static_cast<Context*>(context);
  return guarded(owner->log(), "connect", [&] {
    std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> bytes(static_cast<const std::byte*>(handle),
                                                                   abi::NCCL_NET_HANDLE_MAXSIZE);
    *send_comm = owner->connect(device, bytes).release();
  });
}

abi::ncclResult_t accept(void* listen_comm, void** receive_comm) noexcept {
  *receive_comm = nullptr;
  auto* listener = static_cast<ListenComm*>(listen_comm);
  return guarded(listener->log(), "accept", [&] { *receive_comm = listener->accept().release(); });
}

abi::ncclResult_t register_memory(void* comm, void* data, std::size_t size, int type,
                                  void** memory) noexcept {
  *memory = nullptr;
  return guarded(comm_of(comm).log(), "regMr", [&] {
    *memory = comm_of(comm).register_memory({static_cast<std::byte*>(data), size}, type);
  });
}

abi::ncclResult_t register_dma_buf(void* comm, void* data, std::size_t size, int, std::uint64_t offset,
                                   int file, void** memory) noexcept {
  *memory = nullptr;
  return guarded(comm_of(comm).log(), "regMrDmaBuf", [&] {
    *memory = comm_of(comm).register_dma_buf({static_cast<std::byte*>(data), size}, file, offset);
  });
}

abi::ncclResult_t deregister_memory(void* comm, void* memory) noexcept {
  return guarded(comm_of(comm).log(), "deregMr",
                 [&] { comm_of(comm).deregister_memory(static_cast<transport::Memory*>(memory)); });
}

abi::ncclResult_t send(void* send_comm, void* data, std::size_t size, void* memory, void** request) noexcept {
  return post(Comm::Direction::kSend, send_comm, data, size, memory, request);
}

abi::ncclResult_t receive(void* receive_comm, int count, void* data, std::size_t size, void* memory,
                          void** request) noexcept {
  if (count != 1) {
    *request = nullptr;
    report(comm_of(receive_comm).log(), "irecv", "grouped receives are not offered: maxRecvs is 1");
    return abi::ncclInvalidArgument;
  }
  return post(Comm::Direction::kReceive, receive_comm, data, size, memory, request);
}

abi::ncclResult_t flush(void* receive_comm, int count, void** data, int* sizes, void** memories,
                        void** request) noexcept {
  *request = nullptr;
  // One read by a NIC waits for all that it wrote before, so that the last buffer stands for all.
  int last = count - 1;
  while (last >= 0 && sizes[last] <= 0) --last;
  if (last < 0 || memories == nullptr) return abi::ncclSuccess;
  Request* posted = nullptr;
  const abi::ncclResult_t result =
      comm_of(receive_comm)
          .flush({static_cast<const std::byte*>(data[last]), static_cast<std::size_t>(sizes[last])},
                 static_cast<transport::Memory*>(memories[last]), posted);
  *request = posted;
  return result;
}

abi::ncclResult_t test(void* request, int* done, int* sizes) noexcept {
  *done = 0;
  auto& tested = *static_cast<Request*>(request);
  bool finished = false;
  std::size_t bytes = 0;
  abi::ncclResult_t result = tested.comm->test(tested, finished, bytes);
  if (result == abi::ncclSuccess && finished) {
    *done = 1;
    if (sizes != nullptr) *sizes = static_cast<int>(bytes);  // kMaxMessageBytes keeps it within an int
  }
  return result;
}

abi::ncclResult_t close_comm(void* comm) noexcept {
  delete static_cast<Comm*>(comm);
  Plugin::instance().drop_abandoned();
  return abi::ncclSuccess;
}

abi::ncclResult_t close_listen(void* listen_comm) noexcept {
  delete static_cast<ListenComm*>(listen_comm);
  Plugin::instance().drop_abandoned();
  return abi::ncclSuccess;
}

}  // namespace tombolo::net_plugin::entry
