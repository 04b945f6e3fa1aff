#include "trainer/checkpoint/patience.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace tombolo::trainer {
namespace {

/// Between two words. The shortest deadline that makes sense is longer.
constexpr auto kRound = std::chrono::milliseconds(500);

/// What `action` throws; null for nothing.
std::exception_ptr thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

void work_with_patience(collectives::Communicator* world, const std::function<void()>& work) {
  if (world == nullptr) return work();
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  const auto exchange = [&] {
    for (std::int32_t all_done = 0; all_done == 0;) {
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, kRound, [&] { return done; });
        all_done = done ? 1 : 0;
      }
      world->all_reduce(&all_done, &all_done, 1, collectives::DataType::kInt32, collectives::ReduceOp::kMin);
    }
  };
  std::exception_ptr exchange_failure;
  std::thread exchanging([&] { exchange_failure = thrown_by(exchange); });
  // Here rather than in the other thread: a device's calls belong to the thread that made the stage.
  const std::exception_ptr work_failure = thrown_by(work);
  {
    const std::scoped_lock lock(mutex);
    done = true;
  }
  changed.notify_all();
  exchanging.join();
  if (exchange_failure) std::rethrow_exception(exchange_failure);
  if (work_failure) std::rethrow_exception(work_failure);
}

}  // namespace tombolo::trainer
