// nccl-tests' -T: aborts a communicator that takes too long over one size.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// Allows at most `seconds` for as long as it lives; after that every call on the communicator fails with
/// tomboloAborted. 0: no limit. The communicator must outlive it.
class Watchdog {
 public:
  Watchdog(const api::Communicator& communicator, int seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_signal_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tombolo::bench
