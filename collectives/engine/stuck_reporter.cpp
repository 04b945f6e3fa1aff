#include "collectives/engine/stuck_reporter.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "transport/kernel.h"

namespace tombolo::collectives {

StuckReporter::StuckReporter(Rendezvous job, std::int64_t rank, std::string host, Duration after, Log log)
    : job_(std::move(job)), rank_(rank), host_(std::move(host)), after_(after), log_(std::move(log)) {}

void StuckReporter::publish_note(const std::string& address, const transport::Secret& secret, int size) {
  try {
    note_ = JobNote{address, job_.port, job_.prefix, secret, rank_, size}.publish();
  } catch (const Error& error) {
    log_.info("`tombolo stuck` cannot find this job from process {}: {}", transport::kernel().getpid(),
              error.what());
  }
}

void StuckReporter::publish() noexcept {
  try {
    RankReport report{rank_, host_, transport::kernel().getpid(), 0, {}};
    report.written_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    for (const auto& [communicator, state] : stuck_) report.communicators.push_back(state);
    const auto store = job_.store->reconnect(Deadline::after(kPatience, *job_.clock), Log());
    store->set(report_key(job_.prefix, rank_), report.encode());
  } catch (...) {  // whoever asks will see no report of this rank, or an old one
  }
}

void StuckReporter::tell(const void* communicator, ReportedCommunicator state, bool first) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (first) {
      log_.warning(
          "rank {} on host {} is stuck: {}; nothing has moved for {}. All ranks' states on one page: "
          "tombolo stuck {} (on this host)",
          rank_, host_, state.doing, format_seconds(state.stuck_seconds), transport::kernel().getpid());
    }
    stuck_[communicator] = std::move(state);
    publish();
  } catch (...) {  // without memory there is no report
  }
}

void StuckReporter::withdraw(const void* communicator) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (stuck_.erase(communicator) > 0) publish();
  } catch (...) {
  }
}

}  // namespace tombolo::collectives
