// Has gradients summed over the replicas, in a thread of its own, while the backward pass still computes the
// rest.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/model/stage_parameters.h"
#include "trainer/pipeline/gradient_sum.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

/// The public members are called by the thread that computes.
class GradientReducer {
 public:
  /// `sum` adds up the gradients of the stage that is laid out like `layout`; null where there is nothing to
  /// add: then no thread is started. `data` joins this stage's ranks, one per replica; null with one replica.
  /// Only the helper thread uses `sum` and `data`, which outlives the object.
  GradientReducer(std::unique_ptr<GradientSum> sum, collectives::Communicator* data,
                  const StageParameters& layout, std::size_t bucket_bytes, Timeline& timeline);
  /// Aborts the operations under way and joins the thread.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Says that the gradients from this arena offset on are complete and may be reduced.
  void gradients_final(std::size_t from);
  /// Returns when every gradient and `sums` (added over the replicas) are reduced. Rethrows what the helper
  /// thread caught.
  void finish(std::span<double> sums);

 private:
  void run() noexcept;
  void reduce_step();
  /// Waits for the condition; false when the object is being destroyed.
  template <typename Condition>
  bool wait_for(Condition condition);

  const std::unique_ptr<GradientSum> sum_;
  collectives::Communicator* data_;
  const std::size_t arena_;  ///< floats
  Timeline& timeline_;
  std::vector<Bucket> buckets_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t final_from_;
  std::span<double> sums_;
  bool sums_given_ = false;
  bool step_done_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tombolo::trainer
