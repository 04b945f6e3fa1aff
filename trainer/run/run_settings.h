// What decides how a run's loss goes on, beside the state in its checkpoints and the place in its data.
#pragma once

#include <string>

#include "base/json.h"
#include "trainer/data/token_source.h"
#include "trainer/pipeline/pipeline_trainer.h"

namespace tombolo::trainer {

/// A JSON object, by the names of the options: the optimizer's settings as far as they have an effect, the
/// precisions, and a fingerprint of the data: the CRC-32C of its first and last 4,096 tokens. Throws what
/// reading the data throws.
Json run_settings(const Job& job, TokenSource& data);

/// What differs among the settings that both know: "lr 0.001, now 0.002; clip 0, now 1". Empty where nothing
/// does. `then` may be of another build, or anything.
std::string changed_settings(const Json& then, const Json& now);

}  // namespace tombolo::trainer
