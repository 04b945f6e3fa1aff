// A model's shape as JSON: in the "model" field of a plan file, and in a model file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/json.h"
#include "planner/model/model.h"

namespace tombolo::planner {

/// Reads the members of Model by their names; all but the five sizes are optional. Throws kInvalidUsage
/// naming file, line and field.
Model parse_model(const JsonCursor& at);

/// Writes the sizes, and those other fields that differ from GPT-2's shape.
Json to_json(const Model& model);

}  // namespace tombolo::planner
