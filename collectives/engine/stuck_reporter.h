// Tells what a rank waits for in vain: a line in the log, and a report in the job's store, from which
// `tombolo stuck` reads it.
#pragma once

#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/abort/abort_signal.h"
#include "collectives/stuck/job_note.h"
#include "collectives/stuck/rank_report.h"

namespace tombolo::collectives {

/// One for a communicator and all that are made of it by split() and shrink(). Any thread.
class StuckReporter {
 public:
  /// While it stays so, a rank says it again so often: who reads it sees that the rank lives.
  static constexpr Duration kRepeat = std::chrono::seconds(10);
  /// A call takes at most so long where the store does not answer. Nothing moves meanwhile anyway.
  static constexpr Duration kPatience = std::chrono::seconds(1);

  /// `after`: how long nothing may move in a wait before it is told.
  StuckReporter(Rendezvous job, std::int64_t rank, std::string host, Duration after, Log log);
  /// Lets the job be found from this process. `address` is where that reaches the store.
  void publish_note(const std::string& address, const transport::Secret& secret, int size);

  Duration after() const noexcept { return after_; }
  /// That communicator waits in vain. The first time of a wait it is logged.
  void tell(const void* communicator, ReportedCommunicator state, bool first) noexcept;
  /// It waits no longer.
  void withdraw(const void* communicator) noexcept;

 private:
  void publish() noexcept;  // under mutex_

  Rendezvous job_;
  std::int64_t rank_;
  std::string host_;
  Duration after_;
  Log log_;
  transport::Descriptor note_;
  std::mutex mutex_;
  std::map<const void*, ReportedCommunicator> stuck_;
};

}  // namespace tombolo::collectives
