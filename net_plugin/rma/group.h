// NCCL's collComm of one-sided operations: the ranks that share windows, and the connections between this one
// and the others.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "net_plugin/comms/door.h"
#include "net_plugin/comms/handle.h"
#include "net_plugin/comms/node.h"
#include "net_plugin/devices/devices.h"
#include "net_plugin/rma/initiator.h"
#include "net_plugin/rma/operation.h"
#include "net_plugin/rma/target.h"
#include "net_plugin/rma/window.h"

namespace tombolo::net_plugin::rma {

/// NCCL's listenComm of one-sided operations. Its door outlives it in the group that is connected through it.
struct Listening {
  Listening(std::shared_ptr<const Node> node, const NetDevice& device, Log log);
  HandleBytes handle() const;

  std::shared_ptr<const Node> node;
  const NetDevice& device;
  Log log;
  transport::Secret secret;
  std::shared_ptr<Door> door;
};

/// A signal that follows a put; `window` null: none.
struct Signal {
  const Window* window = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t add = 0;
};

/// Threads: any, one at a time inside. Each connection is dialled by the rank that asks, for its first
/// operation, so that a group of many ranks costs what it uses. Operations of this rank on one other rank are
/// carried out there in the order in which they were posted; one is done once it has been carried out and
/// answered, a get once its bytes are here.
class Group final : private Windows {
 public:
  /// Throws kInvalidUsage for a rank that is none, kRemote for handles that are not the plugin's. Does not
  /// wait for the other ranks.
  Group(const Listening& listening, std::span<const HandleBytes> handles, std::uint32_t rank);
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Registers memory of NCCL's pointer type HOST or CUDA. All ranks do it in the same order. Throws
  /// kUnsupported or kInvalidUsage, with the reason.
  Window* add_window(std::span<std::byte> memory, int type);
  /// Operations that still use it fail, and their connections with them.
  void remove_window(const Window* window);

  /// The operations are never null. Throw kInvalidUsage where a rank, a window or a range of this rank is
  /// wrong, kRemote where the connection to the rank has failed. `window`: this rank's own, of the number
  /// that is meant there.
  Operation* put(std::uint32_t rank, const Window* from, std::uint64_t from_offset, std::uint64_t bytes,
                 const Window* window, std::uint64_t offset, const Signal& signal);
  Operation* get(std::uint32_t rank, const Window* window, std::uint64_t offset, std::uint64_t bytes,
                 const Window* to, std::uint64_t to_offset);
  /// Done when all operations on that rank before it are.
  Operation* flush(std::uint32_t rank);

  /// Progresses the operation's connection and all that other ranks do here. True when done, and then the
  /// operation is gone. Throws kRemote, with the reason, where it failed; then it is gone too.
  bool test(Operation* operation);
  void progress();
  bool failed() const;

  /// Of the connections that are dialled from now on; NCCL_NET_TRAFFIC_CLASS_UNDEF changes nothing. Throws as
  /// checked_traffic_class() does.
  void set_traffic_class(int traffic_class);

  const Log& log() const noexcept { return log_; }

 private:
  Windows& windows() noexcept { return *this; }
  const Window* find(std::uint32_t number) const noexcept override;
  bool is_to_come(std::uint32_t number) const noexcept override {
    return number >= next_window_ && number < kNoWindow;
  }
  Duration patience() const noexcept override { return node_->deadline; }
  bool by_nic() const noexcept override { return by_nic_; }
  void note(const std::string& what) const noexcept override;
  bool take_turn(const void* owner) noexcept override;
  void end_turn(const void* owner) noexcept override;

  Initiator& initiator(std::uint32_t rank);
  Initiator::Dial dial(std::uint32_t rank);
  Operation* post(std::uint32_t rank, const RequestFrame& frame, const Window* local,
                  std::uint64_t local_offset);
  void check_here(const Window* window, std::uint64_t offset, std::uint64_t bytes, const char* what) const;
  void progress_locked();
  void look_for_stalls() noexcept;
  void take_arrivals();

  std::shared_ptr<const Node> node_;
  const NetDevice& device_;
  Log log_;
  std::shared_ptr<Door> door_;
  std::vector<Handle> peers_;  // by rank
  std::uint32_t rank_;
  bool by_nic_;

  mutable std::mutex lock_;  // protects all below
  int traffic_class_ = -1;
  bool failed_ = false;
  unsigned passes_ = 0;
  const void* turn_ = nullptr;
  std::uint32_t next_window_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Window>> windows_;
  std::deque<Operation> operations_;
  std::vector<Operation*> free_;
  CopyPieces pieces_;
  std::map<std::uint32_t, std::unique_ptr<Initiator>> initiators_;  // by rank
  std::list<std::unique_ptr<Target>> targets_;
};

}  // namespace tombolo::net_plugin::rma
