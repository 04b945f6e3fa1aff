// The tables of the C interface's handles: which communicator a tomboloComm_t stands for, and which started
// call a tomboloWork_t.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/engine/communicator.h"
#include "collectives/rendezvous/unique_id.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

/// What tomboloRedOpCreatePreMulSum made.
struct PreMultipliedSum {
  collectives::DataType type;
  collectives::Factor factor;
};

/// A communicator with what the C interface keeps beside it.
struct Member {
  /// Those that this process keeps: of the unique id that it was made with, and of those that it made.
  std::vector<std::shared_ptr<collectives::StoreServer>> servers;
  std::unique_ptr<collectives::Communicator> communicator;
  std::string last_algorithm, explanation;
  void* stream = nullptr;                     // of CUDA, by tomboloCommSetStream
  std::map<int, PreMultipliedSum> operators;  // by their numbers, which no other communicator's have
};

/// The live handles of this process. Handles are numbers that are never used twice, so that one that was
/// destroyed is recognised and never followed. Any thread may use it.
template <typename Handle, typename Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const auto handle = reinterpret_cast<Handle>(++last_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  /// Null where the number is no handle, or one that was removed.
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  template <typename Condition>
  void remove_if(const Condition& condition) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return condition(*entry.second); });
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
  std::uintptr_t last_ = 0;
};

Handles<tomboloComm_t, Member>& handles();

/// A call that was started on a communicator, which may be gone meanwhile.
struct StartedCall {
  std::weak_ptr<Member> member;
  collectives::Work work;
};

Handles<tomboloWork_t, StartedCall>& works();

/// Throws kInvalidUsage in a callback of that communicator.
void refuse_in_callback(const Member& member, const char* function);

/// Throws InvalidArgument where there is no such communicator.
std::shared_ptr<Member> member_of(tomboloComm_t comm, const char* function);

}  // namespace tombolo::c_api
