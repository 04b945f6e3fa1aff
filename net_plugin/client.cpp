#include "net_plugin/client.h"

#include <dlfcn.h>

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

  abi::Result init(void** context, std::uint64_t communicator, abi::Logger logger) override {
    *context = nullptr;
    if constexpr (kVersion >= 11) {
      abi::CommConfig config{abi::kUndefined};
      return table_.init(context, communicator, &config, logger, nullptr);
    } else if constexpr (kVersion == 10) {
      return table_.init(logger, nullptr);
    } else {
      return table_.init(logger);
    }
  }

  abi::Result finalize([[maybe_unused]] void* context) override {
    if constexpr (kVersion >= 11) {
      return table_.finalize(context);
    } else {
      return abi::kSuccess;
    }
  }

  abi::Result devices(int* count) override { return table_.devices(count); }

  abi::Result get_properties(int device, abi::PropertiesV12* to) override {
    std::remove_pointer_t<decltype(argument(table_.get_properties))> from{};
    abi::Result result = table_.get_properties(device, &from);
    to->name = from.name;
    to->pci_path = from.pci_path;
    to->guid = from.guid;
    to->pointer_support = from.pointer_support;
    to->speed = from.speed;
    to->port = from.port;
    to->latency = from.latency;
    to->most_comms = from.most_comms;
    to->most_receives = from.most_receives;
    if constexpr (kVersion >= 7) {
      to->net_device_type = from.net_device_type;
      to->net_device_version = from.net_device_version;
    }
    if constexpr (kVersion >= 8) to->registration_is_global = from.registration_is_global;
    if constexpr (kVersion >= 9) {
      to->force_flush = from.force_flush;
      to->group.count = from.group.count;
      to->group.devices[0] = from.group.devices[0];
      to->most_point_to_point_bytes = from.most_point_to_point_bytes;
      to->most_collective_bytes = from.most_collective_bytes;
    }
    if constexpr (kVersion >= 11) to->most_requests_in_one = from.most_requests_in_one;
    if constexpr (kVersion >= 12) {
      to->rail = from.rail;
      to->plane = from.plane;
    }
    return result;
  }

  abi::Result listen([[maybe_unused]] void* context, int device, void* handle, void** listen_comm) override {
    if constexpr (kVersion >= 11) {
      return table_.listen(context, device, handle, listen_comm);
    } else {
      return table_.listen(device, handle, listen_comm);
    }
  }

  abi::Result connect([[maybe_unused]] void* context, int device, void* handle, void** send_comm) override {
    if constexpr (kVersion >= 11) {
      abi::DeviceHandle* offload = nullptr;
      return table_.connect(context, device, handle, send_comm, &offload);
    } else if constexpr (kVersion == 10) {
      abi::DeviceHandle* offload = nullptr;
      abi::CommConfig config{abi::kUndefined};
      return table_.connect(device, &config, handle, send_comm, &offload);
    } else if constexpr (kVersion >= 7) {
      abi::DeviceHandle* offload = nullptr;
      return table_.connect(device, handle, send_comm, &offload);
    } else {
      return table_.connect(device, handle, send_comm);
    }
  }

  abi::Result accept(void* listen_comm, void** receive_comm) override {
    if constexpr (kVersion >= 7) {
      abi::DeviceHandle* offload = nullptr;
      return table_.accept(listen_comm, receive_comm, &offload);
    } else {
      return table_.accept(listen_comm, receive_comm);
    }
  }

  abi::Result register_memory(void* comm, void* data, std::size_t size, int kind, void** memory) override {
    using Size = std::conditional_t<(kVersion < 8), int, std::size_t>;
    return table_.register_memory(comm, data, static_cast<Size>(size), kind, memory);
  }

  abi::Result register_dma_buf(void* comm, void* data, std::size_t size, int fd, void** memory) override {
    return table_.register_dma_buf(comm, data, size, abi::kCudaPointer, 0, fd, memory);
  }

  abi::Result deregister_memory(void* comm, void* memory) override {
    return table_.deregister_memory(comm, memory);
  }

  abi::Result send(void* send_comm, void* data, std::size_t size, void* memory, void** request) override {
    auto length = static_cast<Length>(size);
    if constexpr (kVersion >= 10) {
      return table_.send(send_comm, data, length, kTag, memory, nullptr, request);
    } else {
      return table_.send(send_comm, data, length, kTag, memory, request);
    }
  }

  abi::Result receive(void* receive_comm, void* data, std::size_t size, void* memory,
                      void** request) override {
    auto length = static_cast<Length>(size);
    int tag = kTag;
    if constexpr (kVersion >= 10) {
      void* profiler_parent = nullptr;
      return table_.receive(receive_comm, 1, &data, &length, &tag, &memory, &profiler_parent, request);
    } else {
      return table_.receive(receive_comm, 1, &data, &length, &tag, &memory, request);
    }
  }

  abi::Result flush(void* receive_comm, void* data, std::size_t size, void* memory, void** request) override {
    auto length = static_cast<int>(size);
    return table_.flush(receive_comm, 1, &data, &length, &memory, request);
  }

  abi::Result test(void* request, int* done, int* size) override { return table_.test(request, done, size); }

  abi::Result close_send(void* comm) override { return table_.close_send(comm); }
  abi::Result close_receive(void* comm) override { return table_.close_receive(comm); }
  abi::Result close_listen(void* comm) override { return table_.close_listen(comm); }

 private:
  /// isend's and irecv's sizes.
  using Length = std::conditional_t<(kVersion < 9), int, std::size_t>;
  /// Tags tell apart what is grouped into one receive, of which there is one here.
  static constexpr int kTag = 0;

  template <typename Properties>
  static Properties* argument(abi::Result (*)(int, Properties*));

  Table& table_;
};

template <int kVersion, typename Table>
std::unique_ptr<Client> make(void* library, void* table) {
  return std::make_unique<TableClient<kVersion, Table>>(library, *static_cast<Table*>(table));
}

std::unique_ptr<Client> client_for(void* library, void* table, int abi_version) {
  switch (abi_version) {
    case 6:
      return make<6, abi::NetV6>(library, table);
    case 7:
      return make<7, abi::NetV7>(library, table);
    case 8:
      return make<8, abi::NetV8>(library, table);
    case 9:
      return make<9, abi::NetV9>(library, table);
    case 10:
      return make<10, abi::NetV10>(library, table);
    case 11:
      return make<11, abi::NetV11>(library, table);
    case 12:
      return make<12, abi::NetV12>(library, table);
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
  // The flags that NCCL uses.
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
