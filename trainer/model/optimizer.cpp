#include "trainer/model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

void check_number(const char* what, double value, bool good, const char* range) {
  if (!std::isfinite(value) || !good)
    fail(Cause::kInvalidUsage, "{} {} is no finite number {}", what, value, range);
}

}  // namespace

void AdamW::check() const {
  check_number("--lr", learning_rate, learning_rate >= 0, "from 0 on");
  check_number("beta1", beta1, beta1 >= 0 && beta1 < 1, "in [0, 1)");
  check_number("beta2", beta2, beta2 >= 0 && beta2 < 1, "in [0, 1)");
  check_number("epsilon", epsilon, epsilon > 0, "above 0");
  check_number("--weight-decay", weight_decay, weight_decay >= 0, "from 0 on");
  check_number("--clip", clip, clip >= 0, "from 0 on");
  check_number("--warmup", static_cast<double>(warmup), warmup >= 0, "from 0 on");
  check_number("--lr-min", smallest_rate, smallest_rate >= 0 && smallest_rate <= learning_rate,
               "from 0 to --lr");
}

double learning_rate_at(const AdamW& options, std::int64_t step) noexcept {
  if (step < options.warmup)
    return options.learning_rate *
           std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(options.warmup));
  switch (options.schedule) {
    case RateSchedule::kConstant:
      return options.learning_rate;
    case RateSchedule::kCosine: {
      if (step >= options.steps) return options.smallest_rate;
      const double done =
          static_cast<double>(step - options.warmup) / static_cast<double>(options.steps - options.warmup);
      return options.smallest_rate +
             (options.learning_rate - options.smallest_rate) * (1 + std::cos(std::numbers::pi * done)) / 2;
    }
  }
  return options.learning_rate;
}

AdamWStep adamw_step(const AdamW& options, std::int64_t step, double gradient_norm) noexcept {
  const double rate = learning_rate_at(options, step);
  const double count = static_cast<double>(step + 1);
  AdamWStep result{};
  // The small addend is that of PyTorch's clip_grad_norm_, so that runs can be compared.
  result.gradient_scale =
      options.clip > 0 ? static_cast<float>(std::min(1.0, options.clip / (gradient_norm + 1e-6))) : 1.0F;
  result.beta1 = static_cast<float>(options.beta1);
  result.beta2 = static_cast<float>(options.beta2);
  result.epsilon = static_cast<float>(options.epsilon);
  result.decay = static_cast<float>(1.0 - rate * options.weight_decay);
  result.rate = static_cast<float>(rate / (1.0 - std::pow(options.beta1, count)));
  result.number = step;
  result.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, count)));
  return result;
}

}  // namespace tombolo::trainer
