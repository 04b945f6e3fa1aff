// What the ABI forces to be process-wide: up to v10 no function takes a context, and devices() and
// getProperties() take none in any version.
#pragma once

#include <memory>
#include <mutex>

#include "base/log.h"
#include "net_plugin/abi/logger.h"
#include "net_plugin/context.h"
#include "net_plugin/node.h"

namespace tombolo::net_plugin {

/// Threads: any, at the same time.
class Process {
 public:
  /// Made by the first call, destroyed when the library is unloaded.
  static Process& instance();

  /// A communicator's context. The first call finds out what this host has and logs it.
  std::unique_ptr<Context> open(abi::Logger logger, int abi_version);

  /// The context that all communicators share up to v10; made by the first call. It stays until the library
  /// is unloaded, as those versions have no finalize.
  void open_shared(abi::Logger logger, int abi_version);
  /// Throws kInvalidUsage before open_shared().
  Context& shared();

  /// Throws kInvalidUsage before the first open.
  std::shared_ptr<const Node> node() const;
  /// NCCL's logger as last given; silent before.
  Log log() const;

 private:
  Process() = default;
  std::unique_ptr<Context> open_locked(abi::Logger logger, int abi_version);

  mutable std::mutex lock_;
  Log log_;
  std::shared_ptr<const Node> node_;
  std::unique_ptr<Context> shared_;
};

}  // namespace tombolo::net_plugin
