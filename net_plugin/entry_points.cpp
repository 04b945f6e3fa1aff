#include "net_plugin/entry_points.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "net_plugin/limits.h"
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

Buffer buffer_of(void* data, std::size_t size, int tag, void* memory) noexcept {
  return {{static_cast<std::byte*>(data), size}, tag, static_cast<Registration*>(memory)};
}

abi::ncclResult_t post(Comm::Direction direction, void* comm, std::span<const Buffer> buffers,
                       void* const* parents, void** request) noexcept {
  // The request is set in any case, because NCCL may have preset it to NCCL_NET_OPTIONAL_RECV_COMPLETION.
  *request = nullptr;
  for (const Buffer& one : buffers) {
    if (valid(one.data.data(), one.data.size())) continue;
    report(comm_of(comm).log(), direction == Comm::Direction::kSend ? "isend" : "irecv",
           "a null buffer, or a size that is negative or above 1 GiB");
    return abi::ncclInvalidArgument;
  }
  Request* posted = nullptr;
  const abi::ncclResult_t result = comm_of(comm).post(direction, buffers, posted, parents);
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

abi::ncclResult_t init_shared(abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler,
                              int abi_version) noexcept {
  return guarded(nccl_log(logger, LogLevel::kWarning), "init", [&] {
    Plugin::instance().open_shared(logger, abi_version);
    Plugin::instance().shared().set_profiler(profiler);
  });
}

abi::ncclResult_t init_context(void** context, const abi::ncclNetCommConfig_v10_t* config,
                               abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler,
                               int abi_version) noexcept {
  const int traffic_class = config != nullptr ? config->trafficClass : abi::NCCL_NET_TRAFFIC_CLASS_UNDEF;
  return guarded(nccl_log(logger, LogLevel::kWarning), "init", [&] {
    auto made = Plugin::instance().open(logger, abi_version, traffic_class);
    made->set_profiler(profiler);
    *context = made.release();
  });
}

abi::ncclResult_t finalize(void* context) noexcept {
  delete static_cast<Context*>(context);
  return abi::ncclSuccess;
}

abi::ncclResult_t set_attributes(void* context, abi::ncclNetAttr_v11_t* attributes) noexcept {
  if (context == nullptr || attributes == nullptr) return abi::ncclInvalidUsage;
  auto* owner = static_cast<Context*>(context);
  return guarded(owner->log(), "setNetAttr", [&] { owner->set_attributes(*attributes); });
}

abi::ncclResult_t devices(int* count) noexcept {
  Plugin& plugin = Plugin::instance();
  return guarded(plugin.log(), "devices", [&] { *count = static_cast<int>(plugin.node()->devices->size()); });
}

abi::ncclResult_t make_device(int* index, const int* parts, int count, std::size_t most) noexcept {
  Plugin& plugin = Plugin::instance();
  const Log log = plugin.log();
  bool refused = false;
  const abi::ncclResult_t result = guarded(log, "makeVDevice", [&] {
    const std::shared_ptr<const Node> node = plugin.node();
    try {
      *index = node->devices->fuse({parts, static_cast<std::size_t>(std::max(count, 0))}, most);
    } catch (const Error& error) {
      if (error.cause() != Cause::kInvalidUsage) throw;
      log.info("{}", error.what());
      refused = true;
    }
  });
  return refused ? abi::ncclInvalidUsage : result;
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
    comm->set_profiler(owner->profiler());
    HandleBytes bytes = comm->handle();
    std::memcpy(handle, bytes.data(), bytes.size());
    *listen_comm = comm.release();
  });
}

abi::ncclResult_t connect(void* context, int device, const abi::ncclNetCommConfig_v10_t* config, void* handle,
                          void** send_comm) noexcept {
  *send_comm = nullptr;
  if (context == nullptr) return abi::ncclInvalidUsage;
  auto* owner = static_cast<Context*>(context);
  return guarded(owner->log(), "connect", [&] {
    std::span<const std::byte, abi::NCCL_NET_HANDLE_MAXSIZE> bytes(static_cast<const std::byte*>(handle),
                                                                   abi::NCCL_NET_HANDLE_MAXSIZE);
    auto comm = config == nullptr ? owner->connect(device, bytes)
                                  : owner->connect(device, bytes, config->trafficClass);
    if (comm) comm->observe(owner->profiler());
    *send_comm = comm.release();
  });
}

abi::ncclResult_t accept(void* listen_comm, void** receive_comm) noexcept {
  *receive_comm = nullptr;
  auto* listener = static_cast<ListenComm*>(listen_comm);
  return guarded(listener->log(), "accept", [&] {
    auto comm = listener->accept();
    if (comm) comm->observe(listener->profiler());
    *receive_comm = comm.release();
  });
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
                 [&] { comm_of(comm).deregister_memory(static_cast<Registration*>(memory)); });
}

abi::ncclResult_t send(void* send_comm, void* data, std::size_t size, int tag, void* memory, void* parent,
                       void** request) noexcept {
  const Buffer buffer = buffer_of(data, size, tag, memory);
  return post(Comm::Direction::kSend, send_comm, {&buffer, 1}, &parent, request);
}

abi::ncclResult_t receive(void* receive_comm, int count, void** data, const std::size_t* sizes,
                          const int* tags, void** memories, void** parents, void** request) noexcept {
  *request = nullptr;
  if (count < 1 || count > comm_of(receive_comm).most_receives()) {
    report(comm_of(receive_comm).log(), "irecv",
           comm_of(receive_comm).most_receives() == 1
               ? "a group of receives other than one: TOMBOLO_NET_GROUPS=off, so maxRecvs is 1"
               : "a group of fewer than 1 or more than 8 receives: maxRecvs is 8");
    return abi::ncclInvalidArgument;
  }
  std::array<Buffer, kMaxReceives> buffers;
  const auto used = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < used; ++i)
    buffers[i] = buffer_of(data[i], sizes[i], tags[i], memories != nullptr ? memories[i] : nullptr);
  return post(Comm::Direction::kReceive, receive_comm, std::span(buffers).first(used), parents, request);
}

abi::ncclResult_t flush(void* receive_comm, int count, void** data, int* sizes, void** memories,
                        void** request) noexcept {
  *request = nullptr;
  std::array<Buffer, kMaxReceives> buffers;
  std::size_t used = 0;
  for (int i = 0; i < count && memories != nullptr && used < buffers.size(); ++i) {
    if (sizes[i] <= 0 || memories[i] == nullptr) continue;
    buffers[used++] = {{static_cast<std::byte*>(data[i]), static_cast<std::size_t>(sizes[i])},
                       0,
                       static_cast<Registration*>(memories[i])};
  }
  if (used == 0) return abi::ncclSuccess;
  Request* posted = nullptr;
  const abi::ncclResult_t result = comm_of(receive_comm).flush(std::span(buffers).first(used), posted);
  *request = posted;
  return result;
}

abi::ncclResult_t test(void* request, int* done, int* sizes) noexcept {
  auto& tested = *static_cast<Request*>(request);
  bool finished = false;
  const abi::ncclResult_t result = tested.comm->test(tested, finished, sizes);
  *done = finished ? 1 : 0;
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
