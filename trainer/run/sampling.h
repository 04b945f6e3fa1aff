// Text that the model writes while it is trained.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/run/generate.h"

namespace tombolo::trainer {

/// Training is worth more than a sample: what keeps one from being written is a warning. Changes no bit of
/// what is trained. One thread, beside those of its own.
class Sampling {
 public:
  using Sampled = std::function<void(int step, const std::string& text)>;

  /// A sample every `every` steps, or none for 0. `trainer` is that of the run and outlives the object;
  /// `sampled` and `stop_requested` may be empty. `rank_zero`: this rank writes the text, by a copy of the
  /// whole model; `log` is told what memory that takes. Throws what Generator's constructor throws: what is
  /// wrong is found before anything is trained.
  Sampling(int every, const Shape& shape, const GenerateOptions& options, bool rank_zero,
           PipelineTrainer& trainer, Sampled sampled, std::function<bool()> stop_requested, Log log);
  /// Stops a sample that is under way.
  ~Sampling();
  Sampling(const Sampling&) = delete;
  Sampling& operator=(const Sampling&) = delete;

  /// Collective, after every step and what must not wait for a sample: where one is due, gathers the
  /// parameters and lets a thread of rank 0 write the text while training goes on. A sample that is due while
  /// that thread still writes the one before is left out. On rank 0 hands finished samples to `sampled`.
  /// Throws what PipelineTrainer::gather() throws.
  void after_step(const StepReport& report);

  /// Waits for a sample that is under way and hands it over. Not collective: other ranks need not wait.
  void finish() noexcept;

 private:
  void start(int step, std::vector<float> parameters);
  void hand_over() noexcept;

  const int every_;
  PipelineTrainer& trainer_;
  std::optional<Generator> generator_;  ///< on the rank that writes
  const Sampled sampled_;
  const std::function<bool()> stop_requested_;
  const Log log_;
  std::atomic<bool> given_up_ = false;
  int step_ = 0;  ///< after which the sample that is under way was begun
  std::future<std::string> under_way_;
};

}  // namespace tombolo::trainer
