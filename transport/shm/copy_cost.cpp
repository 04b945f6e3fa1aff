#include "transport/shm/copy_cost.h"

#include <map>
#include <mutex>

namespace tombolo::transport::shm {

std::shared_ptr<CopyBook> CopyBook::of(std::int64_t process) {
  static std::mutex lock;
  static std::map<std::int64_t, std::weak_ptr<CopyBook>> all;
  const std::lock_guard guard(lock);
  std::erase_if(all, [](const auto& each) { return each.second.expired(); });
  auto& kept = all[process];
  auto book = kept.lock();
  if (!book) kept = book = std::make_shared<CopyBook>();
  return book;
}

}  // namespace tombolo::transport::shm
