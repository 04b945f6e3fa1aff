#include "transport/rdma/registration_cache.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::transport::rdma {
namespace {

bool covers(std::span<std::byte> whole, std::span<std::byte> part) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

}  // namespace

ibv_mr* RegistrationCache::acquire(std::span<std::byte> range) {
  std::lock_guard guard(lock_);
  auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return covers(entry.range, range); });
  if (found == entries_.end()) {
    ibv_mr* made = add_(range);
    entries_.push_front({range, made, 0});
    found = entries_.begin();
  }
  ++found->holders;
  return found->registration;
}

void RegistrationCache::release(ibv_mr* registration) {
  std::lock_guard guard(lock_);
  auto found = std::ranges::find(entries_, registration, &Entry::registration);
  TOMBOLO_CHECK(found != entries_.end());
  if (--found->holders > 0) return;
  remove_(found->registration);
  entries_.erase(found);
}

std::size_t RegistrationCache::size() const {
  std::lock_guard guard(lock_);
  return entries_.size();
}

}  // namespace tombolo::transport::rdma
