#include "trainer/pipeline/timeline.h"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tombolo::trainer {
namespace {

constexpr std::string_view kCategories[] = {"compute", "compute", "compute", "wait", "reduce"};

double microseconds(Duration duration) {
  return to_seconds(duration) * 1e6;
}

double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Json name_event(std::string_view what, int rank, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void Timeline::keep(int first, int count) noexcept {
  first_ = first;
  count_ = count;
}

void Timeline::set_step(int step) noexcept {
  const std::scoped_lock lock(mutex_);
  step_ = step;
  if (!keeps_steps_) return;
  steps_.emplace_back();
  process_began_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void Timeline::end_step() {
  const std::scoped_lock lock(mutex_);
  if (!keeps_steps_) return;
  StepSeconds& step = steps_.back();
  step.sending = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - process_began_;
  for (const Activity computing : {Activity::kForward, Activity::kBackward, Activity::kUpdate})
    step.sending -= step.processor[static_cast<std::size_t>(computing)];
  // The kernel reads the two clocks at slightly different times, so the difference may be below 0.
  step.sending = std::max(0.0, step.sending);
}

void Timeline::add(std::string_view name, Activity activity, int micro_batch, TimePoint begin, TimePoint end,
                   double processor) {
  const std::scoped_lock lock(mutex_);
  add_to({name, activity, step_, micro_batch, begin, end}, processor);
}

void Timeline::add_device_bar(int step, std::string_view name, Activity activity, int micro_batch,
                              TimePoint begin, TimePoint end) {
  const std::scoped_lock lock(mutex_);
  add_to({name, activity, step, micro_batch, begin, end}, 0);
}

void Timeline::add_to(const Bar& bar, double processor) {
  const double took = to_seconds(bar.end - bar.begin);
  const auto index = static_cast<std::size_t>(bar.activity);
  seconds_[index] += took;
  const auto before = static_cast<std::size_t>(step_ - bar.step);
  if (keeps_steps_ && before < steps_.size()) {
    StepSeconds& step = steps_[steps_.size() - 1 - before];
    step.elapsed[index] += took;
    step.processor[index] += processor;
  }
  if (kept(bar.step)) bars_.push_back(bar);
}

void Timeline::add_transfer(const Transfer& transfer, TimePoint begin, TimePoint end) {
  const std::scoped_lock lock(mutex_);
  if (kept(step_)) transfers_.push_back({transfer, step_, begin, end});
}

void Timeline::add_wait(int peer, double seconds) {
  const std::scoped_lock lock(mutex_);
  waits_[peer] += seconds;
}

double thread_processor_seconds() noexcept {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double Timeline::seconds(Activity activity) const noexcept {
  return seconds_[static_cast<std::size_t>(activity)];
}

int Timeline::row_of(Activity activity) const noexcept {
  if (activity == Activity::kReduce) return 1;
  return activity == Activity::kWait && pass_clock_ == planner::PassClock::kDevice ? 2 : 0;
}

Json Timeline::events(int rank, const std::string& label) const {
  Json events = Json::array();
  events.push_back(name_event("process_name", rank, 0, label));
  const bool by_device = pass_clock_ == planner::PassClock::kDevice;
  events.push_back(
      name_event("thread_name", rank, 0, by_device ? "compute (the device's clock)" : "compute"));
  if (by_device) events.push_back(name_event("thread_name", rank, 2, "wait (the host's clock)"));
  events.push_back(name_event("thread_name", rank, 1, "reduce gradients"));
  for (const Bar& bar : bars_) {
    Json arguments{{"step", bar.step}};
    if (bar.micro_batch >= 0) arguments["micro_batch"] = bar.micro_batch;
    events.push_back({{"name", bar.name},
                      {"cat", kCategories[static_cast<int>(bar.activity)]},
                      {"ph", "X"},
                      {"ts", microseconds(bar.begin - start_)},
                      {"dur", microseconds(bar.end - bar.begin)},
                      {"pid", rank},
                      {"tid", row_of(bar.activity)},
                      {"args", std::move(arguments)}});
  }
  for (std::size_t index = 0; index < transfers_.size(); ++index) {
    const TransferBar& bar = transfers_[index];
    const Transfer& transfer = bar.transfer;
    const bool from = transfer.direction == Transfer::Direction::kFrom;
    Json event{{"name", fmt::format("{} {} rank {}", transfer.what, from ? "from" : "to", transfer.peer)},
               {"cat", "link"},
               {"id", fmt::format("{}.{}", rank, index)},
               {"pid", rank},
               {"tid", 0},
               {"ph", "b"},
               {"ts", microseconds(bar.begin - start_)},
               {"args", {{"step", bar.step}, {"micro_batch", transfer.micro_batch}}}};
    events.push_back(event);
    event["ph"] = "e";
    event["ts"] = microseconds(bar.end - start_);
    event.erase("args");
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace tombolo::trainer
