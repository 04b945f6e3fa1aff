#include "transport/observe/tracer.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace tombolo::transport {

Tracer::Tracer(std::size_t capacity)
    : capacity_(capacity),
      // calloc gives zero pages of the kernel, which take no memory before they are used.
      slots_(static_cast<Slot*>(std::calloc(capacity, sizeof(Slot)))),
      to_time_of_day_(std::chrono::duration_cast<Duration>(
          std::chrono::system_clock::now().time_since_epoch() - Clock::steady().now().time_since_epoch())) {
  if (slots_ == nullptr && capacity > 0) throw std::bad_alloc();
}

Tracer::~Tracer() {
  std::free(slots_);
}

void Tracer::add(const TraceEvent& event) noexcept {
  const std::uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index >= capacity_) return;
  slots_[index].event = event;
  std::atomic_ref(slots_[index].ready).store(1, std::memory_order_release);
}

void Tracer::opened(std::uint64_t connection, std::string name) {
  std::scoped_lock guard(lock_);
  // Connections come and go in a long job, so the number of their names is bounded as that of the events is.
  if (lifetimes_.size() < capacity_) lifetimes_[connection] = {std::move(name), Clock::steady().now(), {}};
}

void Tracer::closed(std::uint64_t connection) {
  std::scoped_lock guard(lock_);
  if (const auto found = lifetimes_.find(connection); found != lifetimes_.end())
    found->second.to = Clock::steady().now();
}

std::vector<TraceEvent> Tracer::events() const {
  std::vector<TraceEvent> all;
  const std::size_t used = std::min<std::uint64_t>(next_.load(std::memory_order_relaxed), capacity_);
  for (std::size_t i = 0; i < used; ++i) {
    if (std::atomic_ref(slots_[i].ready).load(std::memory_order_acquire) != 0) all.push_back(slots_[i].event);
  }
  return all;
}

std::map<std::uint64_t, Tracer::Lifetime> Tracer::lifetimes() const {
  std::scoped_lock guard(lock_);
  return lifetimes_;
}

std::uint64_t Tracer::dropped() const noexcept {
  const std::uint64_t wanted = next_.load(std::memory_order_relaxed);
  return wanted - std::min<std::uint64_t>(wanted, capacity_);
}

}  // namespace tombolo::transport
