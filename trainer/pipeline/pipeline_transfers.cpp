#include "trainer/pipeline/pipeline_transfers.h"

#include <algorithm>

namespace tombolo::trainer {

namespace {

template <typename Pending>
auto& at(Pending& pending, int micro_batch) {
  return pending[static_cast<std::size_t>(micro_batch)];
}

constexpr std::string_view kActivation = "activation", kGradient = "gradient";
constexpr int kPrevious = -1, kNext = 1;

}  // namespace

PipelineTransfers::PipelineTransfers(collectives::Communicator* pipeline, std::vector<int> ranks,
                                     StageCompute& compute, int micro_batches, int in_flight,
                                     Timeline& timeline)
    : pipeline_(pipeline),
      ranks_(std::move(ranks)),
      compute_(compute),
      micro_batches_(micro_batches),
      in_flight_(in_flight),
      timeline_(timeline) {
  for (Pending* pending : {&inputs_, &outputs_, &gradients_in_, &gradients_out_})
    pending->resize(static_cast<std::size_t>(micro_batches));
}

int PipelineTransfers::neighbour(int distance) const noexcept {
  return ranks_[static_cast<std::size_t>(pipeline_->rank() + distance)];
}

std::optional<PipelineTransfers::Started> PipelineTransfers::send(std::span<const std::byte> from,
                                                                  std::string_view what, int to,
                                                                  int micro_batch) {
  return Started{pipeline_->start_send(from.data(), from.size(), pipeline_->rank() + to),
                 Clock::steady().now(),
                 {Transfer::Direction::kTo, neighbour(to), what, micro_batch}};
}

std::optional<PipelineTransfers::Started> PipelineTransfers::receive(std::span<std::byte> into,
                                                                     std::string_view what, int from,
                                                                     int micro_batch) {
  return Started{pipeline_->start_receive(into.data(), into.size(), pipeline_->rank() + from),
                 Clock::steady().now(),
                 {Transfer::Direction::kFrom, neighbour(from), what, micro_batch}};
}

bool PipelineTransfers::finished(std::optional<Started>& started) {
  if (!started) return true;
  if (!pipeline_->test(started->work)) return false;
  timeline_.add_transfer(started->transfer, started->begin, Clock::steady().now());
  started.reset();
  return true;
}

void PipelineTransfers::finish(std::optional<Started>& started, std::string_view what) {
  if (finished(started)) return;
  const TimePoint begin = Clock::steady().now();
  {
    const Timed timed(timeline_, what, Activity::kWait, started->transfer.micro_batch);
    pipeline_->wait(started->work);
  }
  const TimePoint end = Clock::steady().now();
  timeline_.add_wait(started->transfer.peer, to_seconds(end - begin));
  timeline_.add_transfer(started->transfer, started->begin, end);
  started.reset();
}

void PipelineTransfers::begin_step() {
  backwards_ = 0;
  next_gradient_ = 0;
  // The input ring has one buffer more than there are micro-batches in flight, so that the next input can
  // arrive while all others are still needed.
  for (int micro_batch = 0; has_previous() && micro_batch < std::min(in_flight_ + 1, micro_batches_);
       ++micro_batch) {
    at(inputs_, micro_batch) = receive(compute_.input(micro_batch), kActivation, kPrevious, micro_batch);
  }
  while (post_gradient(false)) {
  }
}

bool PipelineTransfers::post_gradient(bool wait) {
  if (!has_next() || next_gradient_ == micro_batches_) return false;
  // The micro-batch that used the buffer before must have ended its backward pass, and its result must have
  // been sent.
  const int previous = next_gradient_ - StageCompute::kGradientBuffers;
  if (previous >= backwards_) return false;
  if (previous >= 0) {
    if (wait)
      finish(at(gradients_out_, previous), "wait to send gradient");
    else if (!finished(at(gradients_out_, previous)))
      return false;
  }
  at(gradients_in_, next_gradient_) =
      receive(compute_.boundary_gradient(next_gradient_), kGradient, kNext, next_gradient_);
  ++next_gradient_;
  return true;
}

void PipelineTransfers::before_forward(int micro_batch) {
  if (has_previous()) finish(at(inputs_, micro_batch), "wait for activation");
  if (has_next() && micro_batch >= in_flight_)
    finish(at(outputs_, micro_batch - in_flight_), "wait to send activation");
}

void PipelineTransfers::after_forward(int micro_batch) {
  if (!has_next()) return;
  at(outputs_, micro_batch) = send(compute_.output(micro_batch), kActivation, kNext, micro_batch);
}

void PipelineTransfers::before_backward(int micro_batch) {
  if (has_next()) {
    while (next_gradient_ <= micro_batch) post_gradient(true);
    finish(at(gradients_in_, micro_batch), "wait for gradient");
  } else if (const int previous = micro_batch - StageCompute::kGradientBuffers;
             has_previous() && previous >= 0) {
    finish(at(gradients_out_, previous), "wait to send gradient");
  }
}

void PipelineTransfers::after_backward(int micro_batch) {
  ++backwards_;
  if (!has_previous()) return;
  at(gradients_out_, micro_batch) =
      send(compute_.boundary_gradient(micro_batch), kGradient, kPrevious, micro_batch);
  const int next = micro_batch + in_flight_ + 1;
  if (next < micro_batches_) at(inputs_, next) = receive(compute_.input(next), kActivation, kPrevious, next);
}

void PipelineTransfers::end_step() {
  if (pipeline_ == nullptr) return;
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    finish(at(outputs_, micro_batch), "wait to send activation");
    finish(at(gradients_out_, micro_batch), "wait to send gradient");
  }
}

void PipelineTransfers::progress() {
  if (pipeline_ == nullptr) return;
  pipeline_->progress();
  while (post_gradient(false)) {
  }
}

}  // namespace tombolo::trainer
