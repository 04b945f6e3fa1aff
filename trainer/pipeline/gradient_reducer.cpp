#include "trainer/pipeline/gradient_reducer.h"

#include <utility>

namespace tombolo::trainer {

using collectives::DataType;
using collectives::ReduceOp;

namespace {

/// Thrown to end the helper thread when the object is destroyed in the middle of a step.
struct Stopped {};

}  // namespace

GradientReducer::GradientReducer(std::unique_ptr<GradientSum> sum, collectives::Communicator* data,
                                 const StageParameters& layout, std::size_t bucket_bytes, Timeline& timeline)
    : sum_(std::move(sum)),
      data_(data),
      arena_(layout.size()),
      timeline_(timeline),
      buckets_(gradient_buckets(layout, bucket_bytes)),
      final_from_(arena_) {
  if (sum_) thread_ = std::thread([this] { run(); });
}

GradientReducer::~GradientReducer() {
  if (!thread_.joinable()) return;
  bool between_steps = false;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    between_steps = final_from_ == arena_ && !sums_given_;
  }
  changed_.notify_all();
  // In the middle of a step the helper thread may be waiting for another rank. Without the abort it would
  // return only when its deadline has passed.
  if (!between_steps) {
    constexpr const char* kReason = "training was given up";
    if (data_ != nullptr) data_->abort(kReason);
    sum_->abort(kReason);
  }
  thread_.join();
}

void GradientReducer::gradients_final(std::size_t from) {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    final_from_ = from;
  }
  changed_.notify_all();
}

void GradientReducer::finish(std::span<double> sums) {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  sums_ = sums;
  sums_given_ = true;
  changed_.notify_all();
  {
    const Timed timed(timeline_, "wait for gradients", Activity::kWait);
    changed_.wait(lock, [this] { return step_done_ || failure_; });
  }
  if (failure_) std::rethrow_exception(failure_);
  step_done_ = false;
}

template <typename Condition>
bool GradientReducer::wait_for(Condition condition) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || condition(); });
  return !stopping_;
}

void GradientReducer::run() noexcept {
  try {
    for (;;) {
      reduce_step();
      const std::scoped_lock lock(mutex_);
      final_from_ = arena_;
      sums_given_ = false;
      step_done_ = true;
      changed_.notify_all();
    }
  } catch (const Stopped&) {
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

void GradientReducer::reduce_step() {
  for (const Bucket& bucket : buckets_) {
    if (!wait_for([&] { return final_from_ <= bucket.begin; })) throw Stopped{};
    sum_->start(bucket);
  }
  if (!wait_for([&] { return sums_given_; })) throw Stopped{};
  if (data_ != nullptr)
    data_->all_reduce(sums_.data(), sums_.data(), sums_.size(), DataType::kFloat64, ReduceOp::kSum);
  sum_->finish();
}

}  // namespace tombolo::trainer
