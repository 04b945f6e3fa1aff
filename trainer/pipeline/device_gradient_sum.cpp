#include "trainer/pipeline/device_gradient_sum.h"

namespace tombolo::trainer {
namespace {

std::unique_ptr<StageGroup> join(collectives::Communicator* ranks, StageCompute& compute, Duration deadline) {
  if (ranks == nullptr) return nullptr;
  GroupId id;
  if (ranks->rank() == 0) id = compute.make_group_id();
  ranks->broadcast(id.bytes.data(), id.bytes.data(), id.bytes.size(), collectives::DataType::kInt8, 0);
  return compute.join_group(id, {ranks->rank(), ranks->size(), deadline});
}

}  // namespace

DeviceGradientSum::DeviceGradientSum(collectives::Communicator* data, collectives::Communicator* tied,
                                     StageCompute& compute, Duration deadline, Timeline& timeline)
    : timeline_(timeline), data_(join(data, compute, deadline)), tied_(join(tied, compute, deadline)) {
  if (!tied_) return;
  const Slice& slice = compute.layout().find(Tensor::kTokenEmbedding);
  embedding_ = {slice.offset, slice.offset + slice.elements};
}

void DeviceGradientSum::start(const Bucket& bucket) {
  if (data_) data_->sum(bucket);
  // Sums follow each other on one stream. That over both ends comes last on both: on the last stage, whose
  // copy is in its first bucket, it would hold up the others until the first stage has come to its end. Two
  // numbers have one sum, so both ends get the same bits.
  if (tied_ && bucket.begin == 0) tied_->sum(embedding_);
}

void DeviceGradientSum::finish() {
  const Timed timed(timeline_, "reduce gradients", Activity::kReduce);
  if (data_) data_->wait();
  if (tied_) tied_->wait();
}

void DeviceGradientSum::abort(const std::string& reason) noexcept {
  if (data_) data_->abort(reason);
  if (tied_) tied_->abort(reason);
}

}  // namespace tombolo::trainer
