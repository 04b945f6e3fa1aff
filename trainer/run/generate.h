// Generates text from a trained model, byte by byte.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/model.h"

namespace tombolo::trainer {

struct GenerateOptions {
  int bytes = 0;
  double temperature = 1.0;  ///< 0 = always the likeliest byte
  std::uint64_t seed = 1;
  std::string prompt = "\n";  ///< not part of the result; at least one byte
  int threads = 1;
  StageFactory make_stage = cpu_stages();  ///< what computes
};

/// `parameters` is the whole model in a checkpoint's order. The same arguments give the same text. Calls
/// `stop_requested`, if given, before every byte, and returns the text so far when that returns true. Throws
/// kInvalidUsage on an empty prompt or a temperature below 0.
std::string generate(const Shape& shape, std::span<const float> parameters, const GenerateOptions& options,
                     const std::function<bool()>& stop_requested = {});

}  // namespace tombolo::trainer
