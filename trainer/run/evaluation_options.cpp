#include "trainer/run/evaluation_options.h"

#include "base/error.h"

namespace tombolo::trainer {

void EvaluationOptions::check() const {
  if (validate_every < 0) fail(Cause::kInvalidUsage, "--validate-every {} is below 0", validate_every);
  if (validation_rows < 1) fail(Cause::kInvalidUsage, "--validation-rows {} is below 1", validation_rows);
  if (sample_every < 0) fail(Cause::kInvalidUsage, "--sample-every {} is below 0", sample_every);
  if (validation.empty() && validate_every > 0)
    fail(Cause::kInvalidUsage, "--validate-every {} needs --validation, the data to measure the loss on",
         validate_every);
}

}  // namespace tombolo::trainer
