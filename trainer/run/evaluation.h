// What a run tells about its model while it trains: the loss on other data, and samples of text.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/rows.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/run/generate.h"

namespace tombolo::trainer {

struct EvaluationOptions {
  std::string validation;    ///< data of its own, as TrainOptions::data; empty: none
  int validate_every = 0;    ///< steps; 0: after the last step only
  int validation_rows = 64;  ///< at most; always whole batches, and at least one
  int sample_every = 0;      ///< steps; 0: none

  /// Throws kInvalidUsage naming the number that is out of range, or an option without the one it belongs to.
  void check() const;
};

/// Neither changes a bit of what is trained. One thread.
class Evaluation {
 public:
  using Sampled = std::function<void(int step, const std::string& text)>;

  /// `job` and `trainer` are those of the run of `steps` steps, and outlive the object; `sample` says what
  /// text is generated; `sampled` and `stop_requested` may be empty. `rank_zero`: this rank writes samples.
  /// Throws kInvalidUsage where the validation data is unusable.
  Evaluation(const EvaluationOptions& options, const Job& job, int steps, GenerateOptions sample,
             bool rank_zero, PipelineTrainer& trainer, Sampled sampled, std::function<bool()> stop_requested);
  /// Stops a sample that is under way.
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  /// Collective, after every step: measures the loss where it is due and notes it in the report; where a
  /// sample is due, gathers the parameters and lets a thread of rank 0 write the text while training goes on.
  /// A sample that is due while that thread still writes the one before is left out. On rank 0 hands finished
  /// samples to `sampled`. Throws what PipelineTrainer::validate() and gather() throw.
  void after_step(StepReport& report);

  /// Waits for a sample that is under way and hands it over. Not collective: other ranks need not wait.
  void finish();

 private:
  struct Sample {
    int step;
    std::string text;
  };
  bool validation_is_due(const StepReport& report) const noexcept;
  void start_sample(int step, std::vector<float> parameters);
  void hand_over();

  EvaluationOptions options_;
  const Job& job_;
  int steps_;
  GenerateOptions sample_;
  bool rank_zero_;
  PipelineTrainer& trainer_;
  Sampled sampled_;
  std::function<bool()> stop_requested_;
  std::optional<Rows> validation_;
  std::atomic<bool> given_up_ = false;
  std::future<Sample> under_way_;
};

}  // namespace tombolo::trainer
