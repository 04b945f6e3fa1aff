// Sums gradients over the replicas, in a thread of its own, while the backward pass still computes the rest.
// It also keeps the two copies of the tied embedding equal.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

/// The public members are called by the thread that computes.
class GradientReducer {
 public:
  /// `data` joins this stage's ranks, one per replica; null with one replica. `tied` joins the first and the
  /// last stage of this replica; null where this stage shares nothing. Only the helper thread uses both, and
  /// they must outlive the object. Where both are null no thread is started.
  GradientReducer(collectives::Communicator* data, collectives::Communicator* tied, StageCompute& compute,
                  std::size_t bucket_bytes, Timeline& timeline);
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
  void reduce(const Bucket& bucket);
  /// `values`: the bucket's gradients, in host memory.
  void start_exchange(const Bucket& bucket, std::span<float> values);
  void finish_exchange();
  /// Waits for the condition; false when the object is being destroyed.
  template <typename Condition>
  bool wait_for(Condition condition);

  collectives::Communicator* data_;
  collectives::Communicator* tied_;
  StageCompute& compute_;
  Timeline& timeline_;
  std::vector<Bucket> buckets_;
  Bucket embedding_bucket_;          ///< the one that holds the shared embedding
  std::span<float> embedding_;       ///< its gradient, in host memory while it is exchanged
  std::size_t embedding_begin_ = 0;  ///< its arena offset
  std::vector<float> other_embedding_;
  collectives::Work sending_, receiving_;

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
