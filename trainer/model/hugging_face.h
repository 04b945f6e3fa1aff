// GPT-2 as Hugging Face's transformers keep it: config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "base/json.h"
#include "trainer/model/model.h"
#include "trainer/model/stage_parameters.h"
#include "trainer/model/value_type.h"

namespace tombolo::trainer {

/// Whether a path is meant as such a model: a folder, or a file whose name ends so.
bool is_hugging_face(const std::string& path);

/// The shape that config.json states; the vocabulary padded to a multiple of 128. Throws kInvalidUsage where
/// numbers are missing or out of range, kUnsupported naming what makes it another architecture.
Shape parse_hugging_face_config(const JsonCursor& config);

/// `path`: a folder with both files, or the .safetensors file with config.json beside it. Throws as
/// parse_hugging_face_config(), and kInvalidUsage where a tensor is missing or has another shape.
Shape read_hugging_face_shape(const std::string& path);

/// Fills a stage's arena (parameters.size() floats) from F32, BF16 or F16. Throws as
/// read_hugging_face_shape(), and kSystem on a failed read.
void read_hugging_face(const std::string& path, const StageParameters& parameters, std::span<float> arena);

/// Writes all parameters (in checkpoint order) to `path`, and config.json beside it. Throws kSystem.
void write_hugging_face(const std::string& path, const Shape& shape, std::span<const float> all,
                        ValueType type);

}  // namespace tombolo::trainer
