// Drives a net plugin as NCCL does: loads the library, finds the table of one ABI version, and calls it
// through one interface. For the conformance test and the benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "net_plugin/abi/net.h"

namespace tombolo::net_plugin {

inline constexpr int kOldestAbi = 6, kNewestAbi = 12;

/// A loaded plugin; destroying it unloads the library. Results are the plugin's own. Only load() and adopt()
/// throw. Threads may call it as the plugin allows.
class Client {
 public:
  /// Loads the library. Throws kSystem naming it when it cannot be loaded, and kUnsupported when it lacks the
  /// version.
  static std::unique_ptr<Client> load(const std::string& path, int abi_version);
  /// Drives a table of that version which a loaded library holds under no name of its own. Takes over
  /// `library`, a handle of dlopen(3). Throws kUnsupported for a version that it does not know.
  static std::unique_ptr<Client> adopt(void* library, void* table, int abi_version);
  virtual ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  virtual int abi_version() const noexcept = 0;
  virtual std::string name() const = 0;

  /// Up to v10 `context` becomes null, and the functions below ignore it.
  virtual abi::ncclResult_t init(void** context, std::uint64_t communicator,
                                 abi::ncclDebugLogger_t logger) = 0;
  /// Does nothing up to v10.
  virtual abi::ncclResult_t finalize(void* context) = 0;

  // The functions below call the members of the plugin's table that have the same meaning, with the arguments
  // of NCCL's newest version. Handles, comms and requests are the plugin's.
  virtual abi::ncclResult_t devices(int* count) = 0;
  /// Fills v12's properties; fields that the plugin's version lacks stay as they were.
  virtual abi::ncclResult_t get_properties(int device, abi::ncclNetProperties_v12_t* properties) = 0;

  virtual abi::ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) = 0;
  virtual abi::ncclResult_t connect(void* context, int device, void* handle, void** send_comm) = 0;
  virtual abi::ncclResult_t accept(void* listen_comm, void** receive_comm) = 0;

  virtual abi::ncclResult_t register_memory(void* comm, void* data, std::size_t size, int type,
                                            void** memory) = 0;
  virtual abi::ncclResult_t register_dma_buf(void* comm, void* data, std::size_t size, int fd,
                                             void** memory) = 0;
  virtual abi::ncclResult_t deregister_memory(void* comm, void* memory) = 0;

  virtual abi::ncclResult_t isend(void* send_comm, void* data, std::size_t size, int tag, void* memory,
                                  void** request) = 0;
  /// A group of `count` receives, at most eight.
  virtual abi::ncclResult_t irecv(void* receive_comm, int count, void** data, const std::size_t* sizes,
                                  int* tags, void** memories, void** request) = 0;
  /// With tag 0.
  abi::ncclResult_t send(void* send_comm, void* data, std::size_t size, void* memory, void** request) {
    return isend(send_comm, data, size, 0, memory, request);
  }
  /// One, with tag 0.
  abi::ncclResult_t receive(void* receive_comm, void* data, std::size_t size, void* memory, void** request) {
    int tag = 0;
    return irecv(receive_comm, 1, &data, &size, &tag, &memory, request);
  }
  virtual abi::ncclResult_t flush(void* receive_comm, void* data, std::size_t size, void* memory,
                                  void** request) = 0;
  /// `sizes`: one for each message of the request; may be null for a send.
  virtual abi::ncclResult_t test(void* request, int* done, int* sizes) = 0;

  virtual abi::ncclResult_t close_send(void* send_comm) = 0;
  virtual abi::ncclResult_t close_receive(void* receive_comm) = 0;
  virtual abi::ncclResult_t close_listen(void* listen_comm) = 0;

 protected:
  explicit Client(void* library) : library_(library) {}

 private:
  void* library_;
};

}  // namespace tombolo::net_plugin
