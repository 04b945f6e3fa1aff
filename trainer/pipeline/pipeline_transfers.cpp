#include "trainer/pipeline/pipeline_transfers.h"

#include <algorithm>

namespace tombolo::trainer {

using collectives::Work;

namespace {

std::optional<Work>& at(std::vector<std::optional<Work>>& pending, int micro_batch) {
  return pending[static_cast<std::size_t>(micro_batch)];
}

}  // namespace

PipelineTransfers::PipelineTransfers(collectives::Communicator* pipeline, StageCompute& compute,
                                     int micro_batches, int in_flight, Timeline& timeline)
    : pipeline_(pipeline),
      compute_(compute),
      micro_batches_(micro_batches),
      in_flight_(in_flight),
      timeline_(timeline) {
  for (Pending* pending : {&inputs_, &outputs_, &gradients_in_, &gradients_out_})
    pending->resize(static_cast<std::size_t>(micro_batches));
}

void PipelineTransfers::finish(std::optional<Work>& work, std::string_view what, int micro_batch) {
  if (!work) return;
  if (!pipeline_->test(*work)) {
    const Timed timed(timeline_, what, Activity::kWait, micro_batch);
    pipeline_->wait(*work);
  }
  work.reset();
}

void PipelineTransfers::begin_step() {
  backwards_ = 0;
  next_gradient_ = 0;
  // The input ring has one buffer more than there are micro-batches in flight, so that the next input can
  // arrive while all others are still needed.
  for (int micro_batch = 0; has_previous() && micro_batch < std::min(in_flight_ + 1, micro_batches_);
       ++micro_batch) {
    const std::span<float> into = compute_.input(micro_batch);
    at(inputs_, micro_batch) =
        pipeline_->start_receive(into.data(), into.size_bytes(), pipeline_->rank() - 1);
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
  if (previous >= 0 && at(gradients_out_, previous)) {
    if (wait)
      finish(at(gradients_out_, previous), "wait to send gradient", previous);
    else if (pipeline_->test(*at(gradients_out_, previous)))
      at(gradients_out_, previous).reset();
    else
      return false;
  }
  const std::span<float> into = compute_.boundary_gradient(next_gradient_);
  at(gradients_in_, next_gradient_) =
      pipeline_->start_receive(into.data(), into.size_bytes(), pipeline_->rank() + 1);
  ++next_gradient_;
  return true;
}

void PipelineTransfers::before_forward(int micro_batch) {
  if (has_previous()) finish(at(inputs_, micro_batch), "wait for activation", micro_batch);
  if (has_next() && micro_batch >= in_flight_)
    finish(at(outputs_, micro_batch - in_flight_), "wait to send activation", micro_batch - in_flight_);
}

void PipelineTransfers::after_forward(int micro_batch) {
  if (!has_next()) return;
  const std::span<const float> from = compute_.output(micro_batch);
  at(outputs_, micro_batch) = pipeline_->start_send(from.data(), from.size_bytes(), pipeline_->rank() + 1);
}

void PipelineTransfers::before_backward(int micro_batch) {
  if (has_next()) {
    while (next_gradient_ <= micro_batch) post_gradient(true);
    finish(at(gradients_in_, micro_batch), "wait for gradient", micro_batch);
  } else if (const int previous = micro_batch - StageCompute::kGradientBuffers;
             has_previous() && previous >= 0) {
    finish(at(gradients_out_, previous), "wait to send gradient", previous);
  }
}

void PipelineTransfers::after_backward(int micro_batch) {
  ++backwards_;
  if (!has_previous()) return;
  const std::span<const float> from = compute_.boundary_gradient(micro_batch);
  at(gradients_out_, micro_batch) =
      pipeline_->start_send(from.data(), from.size_bytes(), pipeline_->rank() - 1);
  const int next = micro_batch + in_flight_ + 1;
  if (next < micro_batches_) {
    const std::span<float> into = compute_.input(next);
    at(inputs_, next) = pipeline_->start_receive(into.data(), into.size_bytes(), pipeline_->rank() - 1);
  }
}

void PipelineTransfers::end_step() {
  if (pipeline_ == nullptr) return;
  for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    finish(at(outputs_, micro_batch), "wait to send activation", micro_batch);
    finish(at(gradients_out_, micro_batch), "wait to send gradient", micro_batch);
  }
}

void PipelineTransfers::progress() {
  if (pipeline_ == nullptr) return;
  pipeline_->progress();
  while (post_gradient(false)) {
  }
}

}  // namespace tombolo::trainer
