#include "trainer/cuda/gradient_exchange.h"

#include "base/error.h"

namespace tombolo::trainer::cuda {

GradientExchange::GradientExchange(StageContext& stage, const Passes& passes)
    : stage_(stage), passes_(passes), sent_(*stage.device), back_(*stage.device) {}

std::span<float> GradientExchange::to_host(const Bucket& bucket) {
  if (stage_.host.gradients == nullptr)
    fail(Cause::kInternal, "gradients {} to {}: this stage was made to exchange none", bucket.begin,
         bucket.end);
  const std::size_t count = bucket.end - bucket.begin;
  {
    const std::scoped_lock lock(stage_.to_host);
    passes_.final_from(bucket.begin).order(Stream::kToHost);
    stage_.device->copy(Stream::kToHost, stage_.host.gradients + bucket.begin,
                        stage_.buffers.gradients + bucket.begin, count * sizeof(float));
    sent_.record(Stream::kToHost);
  }
  sent_.synchronize();
  return {stage_.host.gradients + bucket.begin, count};
}

void GradientExchange::from_host(const Bucket& bucket) {
  const std::scoped_lock lock(stage_.from_host);
  stage_.device->copy(Stream::kFromHost, stage_.buffers.gradients + bucket.begin,
                      stage_.host.gradients + bucket.begin, (bucket.end - bucket.begin) * sizeof(float));
  back_.record(Stream::kFromHost);
}

}  // namespace tombolo::trainer::cuda
