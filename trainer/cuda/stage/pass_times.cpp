#include "trainer/cuda/stage/pass_times.h"

#include <utility>

#include "base/error.h"

namespace tombolo::trainer::cuda {

Event PassTimes::recorded_event() {
  if (free_.empty()) free_.push_back(device_.make_timed_event());
  const Event event = free_.back();
  free_.pop_back();
  device_.record(Stream::kCompute, event);
  return event;
}

void PassTimes::begin(Pass pass, int micro_batch) {
  if (!wanted_) return;
  open_ = Recorded{pass, micro_batch, recorded_event(), {}};
}

void PassTimes::end() {
  if (!wanted_) return;
  TOMBOLO_CHECK(open_.has_value(), "a pass ends that has not begun");
  open_->end = recorded_event();
  ended_.push_back(*std::exchange(open_, std::nullopt));
}

void PassTimes::record_anchor() {
  if (!wanted_) return;
  if (!anchor_) anchor_ = device_.make_timed_event();
  device_.record(Stream::kCompute, *anchor_);
}

void PassTimes::anchor_reached(TimePoint now) {
  if (!wanted_) return;
  for (const Recorded& one : std::exchange(ended_, {})) {
    const double began = device_.seconds_between(one.begin, *anchor_);
    const double took = device_.seconds_between(one.begin, one.end);
    const TimePoint begin = now - from_seconds(began);
    known_.push_back({one.pass, one.micro_batch, begin, begin + from_seconds(took)});
    free_.push_back(one.begin);
    free_.push_back(one.end);
  }
}

std::vector<PassTime> PassTimes::take() {
  return std::exchange(known_, {});
}

}  // namespace tombolo::trainer::cuda
