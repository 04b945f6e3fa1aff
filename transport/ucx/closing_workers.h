// The workers of closed connections, kept until their peers have taken the last bytes.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "transport/descriptor.h"
#include "transport/kernel.h"
#include "transport/ucx/worker.h"

namespace tombolo::transport::ucx {

/// What counts as sent may still be queued in UCX, or over TCP in a socket that would discard it when closed.
/// So the worker of a closed connection stays, and a thread that otherwise sleeps progresses it until the
/// peer ends the control channel, which it does once it has read everything. (A flush would depend on calls
/// that the peer makes.) May be used from any thread.
class ClosingWorkers {
 public:
  static ClosingWorkers& of_process();
  ClosingWorkers() = default;
  /// Waits at most a second.
  ~ClosingWorkers();
  ClosingWorkers(const ClosingWorkers&) = delete;
  ClosingWorkers& operator=(const ClosingWorkers&) = delete;

  /// Keeps the worker for at most `within`. The worker may use none of the user's memory. Throws nothing:
  /// without memory or a thread the worker ends at once.
  void add(Descriptor channel, std::unique_ptr<Worker> worker, Duration within) noexcept;
  std::size_t count();

 private:
  struct One {
    Descriptor channel;
    std::unique_ptr<Worker> worker;
    Deadline deadline;
  };
  void run();
  void wake() noexcept;

  std::mutex lock_;
  std::list<One> arrived_;  // not taken by the thread yet
  std::size_t count_ = 0;   // of all
  bool stop_ = false;
  Descriptor wake_;
  std::thread thread_;
  unsigned generation_ = fork_generation();  // a forked child has no such thread
};

}  // namespace tombolo::transport::ucx
