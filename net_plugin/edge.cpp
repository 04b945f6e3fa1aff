#include "net_plugin/edge.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "net_plugin/nccl_log.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin::edge {
namespace {

Comm& comm_of(void* comm) {
  return *static_cast<Comm*>(comm);
}

/// What NCCL passes to register or move; a null buffer of some size, or a size beyond the ABI's, is a bug
/// above us.
bool valid(const void* data, std::size_t size) noexcept {
  return size <= abi::kLargestMessage && (data != nullptr || size == 0);
}

abi::Result post(Comm::Direction direction, void* comm, void* data, std::size_t size, void* memory,
                 void** request) noexcept {
  // Overwrites the preset of an optional receive completion too.
  *request = nullptr;
  if (!valid(data, size)) {
    report(comm_of(comm).log(), direction == Comm::Direction::kSend ? "isend" : "irecv",
           "a null buffer, or a size that is negative or above 1 GiB");
    return abi::kInvalidArgument;
  }
  Operation* operation = nullptr;
  abi::Result result = comm_of(comm).post(direction, {static_cast<std::byte*>(data), size},
                                          static_cast<transport::Memory*>(memory), operation);
  *request = operation;
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

abi::Result init_shared(abi::Logger logger, int abi_version) noexcept {
  return guarded(nccl_log(logger, LogLevel::kWarning), "init",
                 [&] { Process::instance().open_shared(logger, abi_version); });
}

abi::Result init_context(void** context, abi::Logger logger, int abi_version) noexcept {
  return guarded(nccl_log(logger, LogLevel::kWarning), "init",
                 [&] { *context = Process::instance().open(logger, abi_version).release(); });
}

abi::Result finalize(void* context) noexcept {
  delete static_cast<Context*>(context);
  return abi::kSuccess;
}

abi::Result devices(int* count) noexcept {
  Process& process = Process::instance();
  return guarded(process.log(), "devices",
                 [&] { *count = static_cast<int>(process.node()->devices.size()); });
}

void* shared_context() noexcept {
  void* context = nullptr;
  Process& process = Process::instance();
  guarded(process.log(), "context", [&] { context = &process.shared(); });
  return context;
}

abi::Result listen(void* context, int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  if (context == nullptr) return abi::kInvalidUsage;
  auto* owner = static_cast<Context*>(context);
  return guarded(owner->log(), "listen", [&] {
    auto comm = owner->listen(device);
    HandleBytes bytes = comm->handle();
    std::memcpy(handle, bytes.data(), bytes.size());
    *listen_comm = comm.release();
  });
}

abi::Result connect(void* context, int device, void* handle, void** send_comm) noexcept {
  *send_comm = nullptr;
  if (context == nullptr) return abi::kInvalidUsage;
  auto* owner = static_cast<Context*>(context);
  return guarded(owner->log(), "connect", [&] {
    std::span<const std::byte, abi::kHandleBytes> bytes(static_cast<const std::byte*>(handle),
                                                        abi::kHandleBytes);
    *send_comm = owner->connect(device, bytes).release();
  });
}

abi::Result accept(void* listen_comm, void** receive_comm) noexcept {
  *receive_comm = nullptr;
  auto* listener = static_cast<ListenComm*>(listen_comm);
  return guarded(listener->log(), "accept", [&] { *receive_comm = listener->accept().release(); });
}

abi::Result register_memory(void* comm, void* data, std::size_t size, int kind, void** memory) noexcept {
  *memory = nullptr;
  return guarded(comm_of(comm).log(), "regMr", [&] {
    *memory = comm_of(comm).register_memory({static_cast<std::byte*>(data), size}, kind);
  });
}

abi::Result register_dma_buf(void* comm, void* data, std::size_t size, int, std::uint64_t offset, int file,
                             void** memory) noexcept {
  *memory = nullptr;
  return guarded(comm_of(comm).log(), "regMrDmaBuf", [&] {
    *memory = comm_of(comm).register_dma_buf({static_cast<std::byte*>(data), size}, file, offset);
  });
}

abi::Result deregister_memory(void* comm, void* memory) noexcept {
  return guarded(comm_of(comm).log(), "deregMr",
                 [&] { comm_of(comm).deregister_memory(static_cast<transport::Memory*>(memory)); });
}

abi::Result send(void* send_comm, void* data, std::size_t size, void* memory, void** request) noexcept {
  return post(Comm::Direction::kSend, send_comm, data, size, memory, request);
}

abi::Result receive(void* receive_comm, int count, void* data, std::size_t size, void* memory,
                    void** request) noexcept {
  if (count != 1) {
    *request = nullptr;
    report(comm_of(receive_comm).log(), "irecv", "grouped receives are not offered: maxRecvs is 1");
    return abi::kInvalidArgument;
  }
  return post(Comm::Direction::kReceive, receive_comm, data, size, memory, request);
}

abi::Result flush(void*, int, void**, int*, void**, void** request) noexcept {
  *request = nullptr;  // host memory is written by this processor: nothing to wait for
  return abi::kSuccess;
}

abi::Result test(void* request, int* done, int* sizes) noexcept {
  *done = 0;
  auto& operation = *static_cast<Operation*>(request);
  bool finished = false;
  std::size_t bytes = 0;
  abi::Result result = operation.comm->test(operation, finished, bytes);
  if (result == abi::kSuccess && finished) {
    *done = 1;
    if (sizes != nullptr) *sizes = static_cast<int>(bytes);  // at most 1 GiB
  }
  return result;
}

abi::Result close_comm(void* comm) noexcept {
  delete static_cast<Comm*>(comm);
  return abi::kSuccess;
}

abi::Result close_listen(void* listen_comm) noexcept {
  delete static_cast<ListenComm*>(listen_comm);
  return abi::kSuccess;
}

}  // namespace tombolo::net_plugin::edge
