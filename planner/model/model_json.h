// A model's shape as JSON: the "model" of a plan file, and a model file by itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/json.h"
#include "planner/model/model.h"

namespace tombolo::planner {

/// Fields as the members of Model, all but the five sizes optional. Throws kInvalidUsage naming file, line
/// and field.
Model parse_model(const JsonCursor& at);

/// What differs from GPT-2's shape is written, and always the sizes.
Json to_json(const Model& model);

}  // namespace tombolo::planner
