#include "trainer/pipeline/gradient_reducer.h"

namespace tombolo::trainer {

using collectives::DataType;
using collectives::ReduceOp;

namespace {

/// Thrown to end the helper thread when the object is destroyed in the middle of a step.
struct Stopped {};

}  // namespace

GradientReducer::GradientReducer(collectives::Communicator* data, collectives::Communicator* tied,
                                 StageCompute& compute, std::size_t bucket_bytes, Timeline& timeline)
    : data_(data),
      tied_(tied),
      compute_(compute),
      timeline_(timeline),
      buckets_(gradient_buckets(compute.layout(), bucket_bytes)),
      final_from_(compute.layout().size()) {
  if (tied_ != nullptr) {
    const Slice& slice = compute.layout().find(Tensor::kTokenEmbedding);
    embedding_begin_ = slice.offset;
    other_embedding_.resize(slice.elements);
  }
  if (data_ != nullptr || tied_ != nullptr) thread_ = std::thread([this] { run(); });
}

GradientReducer::~GradientReducer() {
  if (!thread_.joinable()) return;
  bool between_steps = false;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    between_steps = final_from_ == compute_.layout().size() && !sums_given_;
  }
  changed_.notify_all();
  // In the middle of a step the helper thread may be waiting for another rank. Without the abort it would
  // return only when its deadline has passed.
  if (!between_steps) {
    if (data_ != nullptr) data_->abort("training was given up");
    if (tied_ != nullptr) tied_->abort("training was given up");
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
      final_from_ = compute_.layout().size();
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
    reduce(bucket);
  }
  if (!wait_for([&] { return sums_given_; })) throw Stopped{};
  if (data_ != nullptr)
    data_->all_reduce(sums_.data(), sums_.data(), sums_.size(), DataType::kFloat64, ReduceOp::kSum);
  finish_exchange();
}

void GradientReducer::reduce(const Bucket& bucket) {
  const bool has_embedding =
      tied_ != nullptr && bucket.begin <= embedding_begin_ && embedding_begin_ < bucket.end;
  if (data_ != nullptr || has_embedding) {
    const Timed timed(timeline_, "reduce gradients", Activity::kReduce);
    const std::span<float> values = compute_.gradients_to_host(bucket);
    if (data_ != nullptr)
      data_->all_reduce(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum);
    // The embedding's bucket goes back when the exchange is over.
    if (has_embedding)
      start_exchange(bucket, values);
    else
      compute_.gradients_from_host(bucket);
  }
  if (tied_ != nullptr) tied_->progress();
}

// Each end sends its own sum over the replicas and adds the other's: both add the same two numbers, so that
// the copies stay equal to the bit. The last stage's half travels while the first stage still computes.
void GradientReducer::start_exchange(const Bucket& bucket, std::span<float> values) {
  embedding_bucket_ = bucket;
  embedding_ = values.subspan(embedding_begin_ - bucket.begin, other_embedding_.size());
  const int peer = 1 - tied_->rank();
  receiving_ = tied_->start_receive(other_embedding_.data(), embedding_.size_bytes(), peer);
  sending_ = tied_->start_send(embedding_.data(), embedding_.size_bytes(), peer);
}

void GradientReducer::finish_exchange() {
  if (tied_ == nullptr) return;
  const Timed timed(timeline_, "exchange embedding", Activity::kReduce);
  tied_->wait(sending_);
  tied_->wait(receiving_);
  for (std::size_t at = 0; at < embedding_.size(); ++at) embedding_[at] += other_embedding_[at];
  compute_.gradients_from_host(embedding_bucket_);
}

}  // namespace tombolo::trainer
