#include "trainer/cuda/stage/gradient_exchange.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace tombolo::trainer::cuda {

/// Sums on stream kReduce, each with an event of its own, so that the deadline is for one of them.
class GradientExchange::Group final : public StageGroup {
 public:
  Group(GradientExchange& exchange, std::unique_ptr<DeviceGroup> group, const GroupMember& member)
      : exchange_(exchange), group_(std::move(group)), member_(member) {}

  ~Group() override {
    if (under_way_ > 0) group_->give_up("sums were under way when the group was left");
  }

  void sum(const Bucket& range) override {
    group_->check();
    exchange_.passes_.final_from(range.begin).order(Stream::kReduce);
    ++under_way_;  // before the call, which may fail half-way
    group_->all_reduce(exchange_.stage_.buffers.gradients + range.begin, range.end - range.begin);
    if (done_.size() < under_way_) done_.emplace_back(*exchange_.stage_.device);
    done_[under_way_ - 1].record(Stream::kReduce);
    exchange_.summed_.record(Stream::kReduce);
  }

  void wait() override {
    for (std::size_t index = 0; index < under_way_; ++index) wait_for(index);
    group_->check();
    under_way_ = 0;
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  void wait_for(std::size_t index) {
    // A wait for a short sum is shorter than a sleep.
    constexpr int kLooks = 1000;
    constexpr auto kSleep = std::chrono::microseconds(20);
    const Deadline deadline = Deadline::after(member_.deadline);
    for (int look = 0; !done_[index].done(); ++look) {
      group_->check();
      if (deadline.passed()) {
        const std::string problem = fmt::format(
            "rank {} of {}: sum {} of {} of the gradients is not done after {}: another rank may have failed",
            member_.rank, member_.size, index + 1, under_way_,
            format_seconds(to_seconds(deadline.allowed())));
        group_->give_up(problem);
        fail(Cause::kTimeout, "{}", problem);
      }
      if (look < kLooks)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kSleep);
    }
  }

  GradientExchange& exchange_;
  const std::unique_ptr<DeviceGroup> group_;
  const GroupMember member_;
  std::deque<Mark> done_;  ///< of the sums since the last wait(), in order
  std::size_t under_way_ = 0;
};

GradientExchange::GradientExchange(StageContext& stage, const Passes& passes)
    : stage_(stage), passes_(passes), sent_(*stage.device), back_(*stage.device), summed_(*stage.device) {}

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

std::unique_ptr<StageGroup> GradientExchange::join(const GroupId& id, const GroupMember& member) {
  return std::make_unique<Group>(*this, stage_.device->join_group(id, member), member);
}

}  // namespace tombolo::trainer::cuda
