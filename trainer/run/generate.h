// Text from a trained model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/model.h"

namespace tombolo::trainer {

struct GenerateOptions {
  int tokens = 0;            ///< bytes, without a tokenizer
  double temperature = 1.0;  ///< 0 = always the likeliest token
  std::uint64_t seed = 1;
  std::string prompt = "\n";   ///< not part of the result; at least one byte
  std::string tokenizer = {};  ///< path (see load_tokenizer()); empty: tokens are bytes
  int threads = 1;
  StageFactory make_stage = cpu_stages();  ///< what computes
};

struct GeneratedText {
  std::string text;
  int tokens = 0;  ///< made: less than asked for where it was stopped
};

/// `parameters`: the whole model in a checkpoint's order. The same arguments give the same text. Asks
/// `stop_requested`, where there is one, before every token, and returns what it has when that says so.
/// Throws kInvalidUsage on an empty prompt, a temperature below 0, or a prompt with tokens outside the
/// vocabulary.
GeneratedText generate(const Shape& shape, std::span<const float> parameters, const GenerateOptions& options,
                       const std::function<bool()>& stop_requested = {});

}  // namespace tombolo::trainer
