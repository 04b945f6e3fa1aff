// One opened RDMA device, shared by all connections of a process that use it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "topology/nic.h"
#include "topology/system/verbs_functions.h"
#include "transport/kernel.h"
#include "transport/rdma/registration_cache.h"

namespace tombolo::transport::rdma {

using Verbs = topology::VerbsFunctions;

/// Where the device's asynchronous events about one queue pair are noted. The queue pair's context is a
/// pointer to this.
struct QueuePairEvents {
  std::atomic<int> fatal{-1};  ///< ibv_event_type of the event after which it is of no use; -1 = none
};

/// What may be done to registered memory.
enum class Access : std::uint8_t {
  kNone,    ///< this end's NIC reads it, to send it
  kByNic,   ///< this end's NIC writes to it, for receives
  kByPeer,  ///< the other end writes to it
  kWindow,  ///< the other end reads and writes it
  kGpu,     ///< the other end writes to it, and this end reads it by a queue pair, to flush what was written
};

class Device {
 public:
  /// Throws kUnsupported or kSystem, saying what to do.
  Device(std::shared_ptr<const Verbs> verbs, const std::string& name, Log log);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Verbs& verbs() const noexcept { return *verbs_; }
  /// Whether a forked child holds this copy. What it destroyed would be destroyed for the parent, whose
  /// descriptor of the device it shares.
  bool is_copy() const noexcept { return generation_ != fork_generation(); }
  const std::string& name() const noexcept { return name_; }
  ibv_context* context() const noexcept { return context_; }
  ibv_pd* domain() const noexcept { return domain_; }
  /// Asks the device for the port's present state. Throws kSystem where it does not answer.
  ibv_port_attr query_port(int port) const;

  /// The entries of the port's GID table that are in use.
  std::vector<topology::Gid> gids(int port) const;

  /// Registers memory for one operation or for a connection's own use; the registration is not shared. Throws
  /// kSystem.
  ibv_mr* add(std::span<std::byte> range, Access access) const;
  /// As Access::kGpu.
  ibv_mr* add_dma_buf(int file, std::uint64_t offset, std::span<std::byte> range) const;
  void remove(ibv_mr* registration) const noexcept;
  /// The shared registrations, which register_memory() uses.
  RegistrationCache& shared() noexcept { return shared_; }
  /// Those of windows, which the other end may also read.
  RegistrationCache& windows() noexcept { return windows_; }

  /// A descriptor that is readable when there is an asynchronous event to take.
  int events() const noexcept { return context_->async_fd; }
  /// Takes and notes asynchronous events without blocking. From any thread.
  void look() noexcept;
  /// The last bad event of this port or of the whole device, as "; ..." for messages; empty for none.
  std::string trouble(int port) const;
  /// Whether the device has said that the port went down, and not that it came back.
  bool down(int port) const;
  /// Whether the whole device is lost.
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  void note(const ibv_async_event& event) noexcept;

  std::shared_ptr<const Verbs> verbs_;
  std::string name_;
  Log log_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  RegistrationCache shared_, windows_;
  mutable std::mutex lock_;
  std::map<int, std::string> trouble_;  // by port; 0: the device
  std::atomic<bool> lost_{false};
  unsigned generation_ = fork_generation();
};

/// The devices of a process, each opened once. Threads: any.
class Devices {
 public:
  /// The table that routers use. It lives as long as the process, and a device as long as it is used.
  static Devices& of_process();
  /// The open device, or a new one. Throws as Device's constructor does, and kUnsupported without libibverbs.
  std::shared_ptr<Device> open(const std::string& name, const Log& log);
  /// For tests: devices are opened by this library from now on; null: by the system's.
  void use(std::shared_ptr<const Verbs> verbs) {
    const std::lock_guard lock(lock_);
    verbs_ = std::move(verbs);
    open_.clear();
  }

 private:
  std::mutex lock_;
  std::shared_ptr<const Verbs> verbs_;
  std::map<std::string, std::weak_ptr<Device>> open_;
};

}  // namespace tombolo::transport::rdma
