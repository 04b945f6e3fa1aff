#include "trainer/run/evaluation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "trainer/data/open_source.h"

namespace tombolo::trainer {

void EvaluationOptions::check() const {
  if (validate_every < 0) fail(Cause::kInvalidUsage, "--validate-every {} is below 0", validate_every);
  if (validation_rows < 1) fail(Cause::kInvalidUsage, "--validation-rows {} is below 1", validation_rows);
  if (sample_every < 0) fail(Cause::kInvalidUsage, "--sample-every {} is below 0", sample_every);
  if (validation.empty() && validate_every > 0)
    fail(Cause::kInvalidUsage, "--validate-every {} needs --validation, the data to measure the loss on",
         validate_every);
}

Evaluation::Evaluation(const EvaluationOptions& options, const Job& job, int steps, GenerateOptions sample,
                       bool rank_zero, PipelineTrainer& trainer, Sampled sampled,
                       std::function<bool()> stop_requested)
    : options_(options),
      job_(job),
      steps_(steps),
      sample_(std::move(sample)),
      rank_zero_(rank_zero),
      trainer_(trainer),
      sampled_(std::move(sampled)),
      stop_requested_(std::move(stop_requested)) {
  if (!options.validation.empty())
    validation_.emplace(open_source({options.validation, job.tokenizer}), job.shape.context, RowOrder{});
}

Evaluation::~Evaluation() {
  given_up_ = true;  // the future's destructor waits
}

bool Evaluation::validation_is_due(const StepReport& report) const noexcept {
  if (!validation_ || report.interrupted) return false;
  const int made = report.step + 1;
  return made == steps_ || (options_.validate_every > 0 && made % options_.validate_every == 0);
}

void Evaluation::after_step(StepReport& report) {
  if (validation_is_due(report)) {
    const auto batch = static_cast<std::uint64_t>(job_.parallel.global_batch);
    const std::uint64_t rows =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(options_.validation_rows), validation_->count());
    report.validation_loss =
        trainer_.validate(*validation_, static_cast<int>(std::max<std::uint64_t>(1, rows / batch)));
  }
  const bool sample_is_due =
      options_.sample_every > 0 && !report.interrupted && (report.step + 1) % options_.sample_every == 0;
  if (sample_is_due) {
    std::vector<float> parameters = trainer_.gather();
    if (rank_zero_ && !under_way_.valid()) start_sample(report.step, std::move(parameters));
  }
  using namespace std::chrono_literals;
  if (under_way_.valid() && under_way_.wait_for(0s) == std::future_status::ready) hand_over();
}

void Evaluation::start_sample(int step, std::vector<float> parameters) {
  under_way_ = std::async(std::launch::async, [this, step, all = std::move(parameters)] {
    const auto stop = [this] { return given_up_ || (stop_requested_ && stop_requested_()); };
    return Sample{step, generate(job_.shape, all, sample_, stop).text};
  });
}

void Evaluation::hand_over() {
  const Sample sample = under_way_.get();
  if (sampled_) sampled_(sample.step, sample.text);
}

void Evaluation::finish() {
  if (under_way_.valid()) hand_over();
}

}  // namespace tombolo::trainer
