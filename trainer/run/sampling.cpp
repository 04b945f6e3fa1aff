#include "trainer/run/sampling.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/units.h"

namespace tombolo::trainer {

Sampling::Sampling(int every, const Shape& shape, const GenerateOptions& options, bool rank_zero,
                   PipelineTrainer& trainer, Sampled sampled, std::function<bool()> stop_requested, Log log)
    : every_(every),
      trainer_(trainer),
      sampled_(std::move(sampled)),
      stop_requested_(std::move(stop_requested)),
      log_(std::move(log)) {
  if (every == 0 || !rank_zero) return;
  generator_.emplace(shape, options);
  log_.info("samples: a copy of the whole model takes {} on rank 0 beside its stage",
            format_size(generator_->memory()));
}

Sampling::~Sampling() {
  given_up_ = true;  // the future's destructor waits
}

void Sampling::after_step(const StepReport& report) {
  if (every_ > 0 && !report.interrupted && (report.step + 1) % every_ == 0) {
    std::vector<float> parameters = trainer_.gather();
    if (generator_ && !under_way_.valid()) start(report.step, std::move(parameters));
  }
  using namespace std::chrono_literals;
  if (under_way_.valid() && under_way_.wait_for(0s) == std::future_status::ready) hand_over();
}

void Sampling::start(int step, std::vector<float> parameters) {
  step_ = step;
  try {
    under_way_ = std::async(std::launch::async, [this, all = std::move(parameters)] {
      return generator_->generate(all, [this] { return given_up_ || (stop_requested_ && stop_requested_()); })
          .text;
    });
  } catch (const std::exception& error) {  // no thread is to be had
    log_.warning("no sample after step {}: {}; training goes on", step + 1, error.what());
  }
}

void Sampling::hand_over() noexcept {
  try {
    const std::string text = under_way_.get();
    if (sampled_) sampled_(step_, text);
  } catch (const std::exception& error) {
    log_.warning("no sample after step {}: {}; training goes on", step_ + 1, error.what());
  }
}

void Sampling::finish() noexcept {
  if (under_way_.valid()) hand_over();
}

}  // namespace tombolo::trainer
