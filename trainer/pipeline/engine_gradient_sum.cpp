#include "trainer/pipeline/engine_gradient_sum.h"

namespace tombolo::trainer {

using collectives::DataType;
using collectives::ReduceOp;

EngineGradientSum::EngineGradientSum(collectives::Communicator* data, collectives::Communicator* tied,
                                     StageCompute& compute, Timeline& timeline)
    : data_(data), tied_(tied), compute_(compute), timeline_(timeline) {
  if (tied_ == nullptr) return;
  const Slice& slice = compute.layout().find(Tensor::kTokenEmbedding);
  embedding_begin_ = slice.offset;
  other_embedding_.resize(slice.elements);
}

void EngineGradientSum::start(const Bucket& bucket) {
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
void EngineGradientSum::start_exchange(const Bucket& bucket, std::span<float> values) {
  embedding_bucket_ = bucket;
  embedding_ = values.subspan(embedding_begin_ - bucket.begin, other_embedding_.size());
  const int peer = 1 - tied_->rank();
  receiving_ = tied_->start_receive(other_embedding_.data(), embedding_.size_bytes(), peer);
  sending_ = tied_->start_send(embedding_.data(), embedding_.size_bytes(), peer);
}

void EngineGradientSum::finish() {
  if (tied_ == nullptr) return;
  const Timed timed(timeline_, "exchange embedding", Activity::kReduce);
  tied_->wait(sending_);
  tied_->wait(receiving_);
  for (std::size_t at = 0; at < embedding_.size(); ++at) embedding_[at] += other_embedding_[at];
  compute_.gradients_from_host(embedding_bucket_);
}

void EngineGradientSum::abort(const std::string& reason) noexcept {
  if (data_ != nullptr) data_->abort(reason);
  if (tied_ != nullptr) tied_->abort(reason);
}

}  // namespace tombolo::trainer
