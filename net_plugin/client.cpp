#include "net_plugin/client.h"

#include <dlfcn.h>

#include <array>
#include <type_traits>

#include "base/error.h"

namespace tombolo::net_plugin {
namespace {

template <int kVersion, typename Table>
class TableClient final : public Client {
 public:
  TableClient(void* library, Table& table) : Client(library), table_(table) {}

  int abi_version() const noexcept override { return kVersion; }
  std::string name() const override { return table_.name; }

  abi::ncclResult_t init(void** context, std::uint64_t communicator, abi::ncclDebugLogger_t logger) override {
    *context = nullptr;
    if constexpr (kVersion >= 11) {
      abi::ncclNetCommConfig_v10_t config{abi::NCCL_NET_TRAFFIC_CLASS_UNDEF};
      return table_.init(context, communicator, &config, logger, nullptr);
    } else if constexpr (kVersion == 10) {
      return table_.init(logger, nullptr);
    } else {
      return table_.init(logger);
    }
  }

  abi::ncclResult_t finalize([[maybe_unused]] void* context) override {
    if constexpr (kVersion >= 11) {
      return table_.finalize(context);
    } else {
      return abi::ncclSuccess;
    }
  }

  abi::ncclResult_t devices(int* count) override { return table_.devices(count); }

  abi::ncclResult_t get_properties(int device, abi::ncclNetProperties_v12_t* to) override {
    std::remove_pointer_t<decltype(argument(table_.getProperties))> from{};
    abi::ncclResult_t result = table_.getProperties(device, &from);
    to->name = from.name;
    to->pciPath = from.pciPath;
    to->guid = from.guid;
    to->ptrSupport = from.ptrSupport;
    to->speed = from.speed;
    to->port = from.port;
    to->latency = from.latency;
    to->maxComms = from.maxComms;
    to->maxRecvs = from.maxRecvs;
    if constexpr (kVersion >= 7) {
      to->netDeviceType = from.netDeviceType;
      to->netDeviceVersion = from.netDeviceVersion;
    }
    if constexpr (kVersion >= 8) to->regIsGlobal = from.regIsGlobal;
    if constexpr (kVersion >= 9) {
      to->forceFlush = from.forceFlush;
      to->vProps.ndevs = from.vProps.ndevs;
      to->vProps.devs[0] = from.vProps.devs[0];
      to->maxP2pBytes = from.maxP2pBytes;
      to->maxCollBytes = from.maxCollBytes;
    }
    if constexpr (kVersion >= 11) to->maxMultiRequestSize = from.maxMultiRequestSize;
    if constexpr (kVersion >= 12) {
      to->railId = from.railId;
      to->planeId = from.planeId;
    }
    return result;
  }

  abi::ncclResult_t listen([[maybe_unused]] void* context, int device, void* handle,
                           void** listen_comm) override {
    if constexpr (kVersion >= 11) {
      return table_.listen(context, device, handle, listen_comm);
    } else {
      return table_.listen(device, handle, listen_comm);
    }
  }

  abi::ncclResult_t connect([[maybe_unused]] void* context, int device, void* handle,
                            void** send_comm) override {
    if constexpr (kVersion >= 11) {
      abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
      return table_.connect(context, device, handle, send_comm, &offload);
    } else if constexpr (kVersion == 10) {
      abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
      abi::ncclNetCommConfig_v10_t config{abi::NCCL_NET_TRAFFIC_CLASS_UNDEF};
      return table_.connect(device, &config, handle, send_comm, &offload);
    } else if constexpr (kVersion >= 7) {
      abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
      return table_.connect(device, handle, send_comm, &offload);
    } else {
      return table_.connect(device, handle, send_comm);
    }
  }

  abi::ncclResult_t accept(void* listen_comm, void** receive_comm) override {
    if constexpr (kVersion >= 7) {
      abi::ncclNetDeviceHandle_v7_t* offload = nullptr;
      return table_.accept(listen_comm, receive_comm, &offload);
    } else {
      return table_.accept(listen_comm, receive_comm);
    }
  }

  abi::ncclResult_t register_memory(void* comm, void* data, std::size_t size, int type,
                                    void** memory) override {
    using Size = std::conditional_t<(kVersion < 8), int, std::size_t>;
    return table_.regMr(comm, data, static_cast<Size>(size), type, memory);
  }

  abi::ncclResult_t register_dma_buf(void* comm, void* data, std::size_t size, int fd,
                                     void** memory) override {
    return table_.regMrDmaBuf(comm, data, size, abi::NCCL_PTR_CUDA, 0, fd, memory);
  }

  abi::ncclResult_t deregister_memory(void* comm, void* memory) override {
    return table_.deregMr(comm, memory);
  }

  abi::ncclResult_t isend(void* send_comm, void* data, std::size_t size, int tag, void* memory,
                          void** request) override {
    auto length = static_cast<Length>(size);
    if constexpr (kVersion >= 10) {
      return table_.isend(send_comm, data, length, tag, memory, nullptr, request);
    } else {
      return table_.isend(send_comm, data, length, tag, memory, request);
    }
  }

  abi::ncclResult_t irecv(void* receive_comm, int count, void** data, const std::size_t* sizes, int* tags,
                          void** memories, void** request) override {
    std::array<Length, 8> lengths{};
    for (std::size_t i = 0; i < lengths.size() && static_cast<int>(i) < count; ++i)
      lengths[i] = static_cast<Length>(sizes[i]);
    if constexpr (kVersion >= 10) {
      std::array<void*, 8> profiler_parents{};
      return table_.irecv(receive_comm, count, data, lengths.data(), tags, memories, profiler_parents.data(),
                          request);
    } else {
      return table_.irecv(receive_comm, count, data, lengths.data(), tags, memories, request);
    }
  }

  abi::ncclResult_t flush(void* receive_comm, void* data, std::size_t size, void* memory,
                          void** request) override {
    auto length = static_cast<int>(size);
    return table_.iflush(receive_comm, 1, &data, &length, &memory, request);
  }

  abi::ncclResult_t test(void* request, int* done, int* sizes) override {
    return table_.test(request, done, sizes);
  }

  abi::ncclResult_t close_send(void* comm) override { return table_.closeSend(comm); }
  abi::ncclResult_t close_receive(void* comm) override { return table_.closeRecv(comm); }
  abi::ncclResult_t close_listen(void* comm) override { return table_.closeListen(comm); }

 private:
  /// The type of isend's and irecv's sizes.
  using Length = std::conditional_t<(kVersion < 9), int, std::size_t>;
  template <typename Properties>
  static Properties* argument(abi::ncclResult_t (*)(int, Properties*));

  Table& table_;
};

template <int kVersion, typename Table>
std::unique_ptr<Client> make(void* library, void* table) {
  return std::make_unique<TableClient<kVersion, Table>>(library, *static_cast<Table*>(table));
}

std::unique_ptr<Client> client_for(void* library, void* table, int abi_version) {
  switch (abi_version) {
    case 6:
      return make<6, abi::ncclNet_v6_t>(library, table);
    case 7:
      return make<7, abi::ncclNet_v7_t>(library, table);
    case 8:
      return make<8, abi::ncclNet_v8_t>(library, table);
    case 9:
      return make<9, abi::ncclNet_v9_t>(library, table);
    case 10:
      return make<10, abi::ncclNet_v10_t>(library, table);
    case 11:
      return make<11, abi::ncclNet_v11_t>(library, table);
    case 12:
      return make<12, abi::ncclNet_v12_t>(library, table);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Client> Client::adopt(void* library, void* table, int abi_version) {
  if (auto client = client_for(library, table, abi_version)) return client;
  fail(Cause::kUnsupported, "this program drives net ABI v{} to v{}, not v{}", kOldestAbi, kNewestAbi,
       abi_version);
}

std::unique_ptr<Client> Client::load(const std::string& path, int abi_version) {
  // NCCL uses the same flags.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(Cause::kSystem, "cannot load net plugin '{}': {}", path, ::dlerror());
  std::string symbol = fmt::format("ncclNetPlugin_v{}", abi_version);
  void* table = ::dlsym(library, symbol.c_str());
  if (table != nullptr) {
    if (auto client = client_for(library, table, abi_version)) return client;
  }
  ::dlclose(library);
  fail(Cause::kUnsupported, "net plugin '{}' has no {} (this program drives v{} to v{})", path, symbol,
       kOldestAbi, kNewestAbi);
}

Client::~Client() {
  ::dlclose(library_);
}

}  // namespace tombolo::net_plugin
