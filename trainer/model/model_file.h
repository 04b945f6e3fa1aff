// A model's parameters from any file that the trainer reads, and to any that it writes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/stage_parameters.h"
#include "trainer/model/value_type.h"

namespace tombolo::trainer {

/// `path`: a checkpoint of llm.c's format (checkpoint.h), or a GPT-2 of Hugging Face's (hugging_face.h).
/// Throws as these do.
Shape read_model_shape(const std::string& path);

/// Fills a stage's arena (parameters.size() floats).
void read_model(const std::string& path, const StageParameters& parameters, std::span<float> arena);

/// The whole model, in checkpoint order.
std::vector<float> read_whole_model(const std::string& path, const Shape& shape);

/// To Hugging Face's format where the name ends in .safetensors, else to llm.c's. Throws kSystem.
void write_model(const std::string& path, const Shape& shape, std::span<const float> all, ValueType type);

}  // namespace tombolo::trainer
