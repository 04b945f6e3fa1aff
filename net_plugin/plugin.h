// The NCCL net plugin. The room owns NCCL's net interface in terms of transport/: abi/ declares NCCL's
// tables, tables.cpp fills them with the functions of entry_points.h, and those call Plugin, Context,
// ListenComm and Comm. This file holds the plugin's state in a process. The ABI forces some of it to be
// process-wide: up to v10 no function takes a context, and devices() and getProperties() take none in any
// version.
#pragma once

#include <memory>
#include <mutex>

#include "base/log.h"
#include "net_plugin/abi/types.h"
#include "net_plugin/comms/context.h"
#include "net_plugin/comms/node.h"

namespace tombolo::net_plugin {

/// May be used by any thread at any time.
class Plugin {
 public:
  /// The one plugin of the process: made by the first call, destroyed when the library is unloaded.
  static Plugin& instance();

  /// Makes a communicator's context. The first call detects what this host has and logs it.
  std::unique_ptr<Context> open(abi::ncclDebugLogger_t logger, int abi_version, int traffic_class);

  /// Makes the context that all communicators share up to v10, at the first call. It stays until the library
  /// is unloaded, because those versions have no finalize.
  void open_shared(abi::ncclDebugLogger_t logger, int abi_version);
  /// The context of open_shared(). Throws kInvalidUsage before that.
  Context& shared();
  /// Ends attempts to connect that were abandoned in the shared context, if there is one. Its communicators
  /// end without a word, so whoever closes something calls this.
  void drop_abandoned() noexcept;

  /// This host's devices and settings. Throws kInvalidUsage before the first open.
  std::shared_ptr<const Node> node() const;
  /// A log that writes through the logger that the last init gave; before the first init it writes nothing.
  Log log() const;

 private:
  Plugin() = default;
  std::unique_ptr<Context> open_locked(abi::ncclDebugLogger_t logger, int abi_version, int traffic_class);

  mutable std::mutex lock_;
  Log log_;
  std::shared_ptr<const Node> node_;
  std::unique_ptr<Context> shared_;
};

}  // namespace tombolo::net_plugin
