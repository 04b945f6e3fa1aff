// The table of the C interface's communicators: which one a tomboloComm_t stands for.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "collectives/engine/communicator.h"
#include "collectives/rendezvous/unique_id.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

/// A communicator with what the C interface keeps beside it.
struct Member {
  std::shared_ptr<collectives::StoreServer> server;  // where this process made the unique id
  std::unique_ptr<collectives::Communicator> communicator;
  std::string last_algorithm;
};

/// The live handles of this process. Handles are numbers that are never used twice, so that one that was
/// destroyed is recognised and never followed.
class Handles {
 public:
  tomboloComm_t add(std::shared_ptr<Member> member) {
    const std::lock_guard lock(mutex_);
    const auto handle = reinterpret_cast<tomboloComm_t>(++last_);
    members_.emplace(handle, std::move(member));
    return handle;
  }
  /// Null where the number is no handle, or one that was destroyed.
  std::shared_ptr<Member> find(tomboloComm_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(handle);
    return found == members_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Member> remove(tomboloComm_t handle) {
    const std::lock_guard lock(mutex_);
    const auto node = members_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<tomboloComm_t, std::shared_ptr<Member>> members_;
  std::uintptr_t last_ = 0;
};

Handles& handles();

/// Throws InvalidArgument where there is no such communicator.
std::shared_ptr<Member> member_of(tomboloComm_t comm, const char* function);

}  // namespace tombolo::c_api
