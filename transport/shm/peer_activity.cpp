#include "transport/shm/peer_activity.h"

#include <map>
#include <mutex>

namespace tombolo::transport::shm {

std::shared_ptr<PeerActivity> PeerActivity::of(std::int64_t process) {
  static std::mutex lock;
  static std::map<std::int64_t, std::weak_ptr<PeerActivity>> all;
  const std::lock_guard guard(lock);
  std::erase_if(all, [](const auto& each) { return each.second.expired(); });
  auto& kept = all[process];
  auto activity = kept.lock();
  if (!activity) kept = activity = std::make_shared<PeerActivity>();
  return activity;
}

}  // namespace tombolo::transport::shm
