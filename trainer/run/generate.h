// Text from a trained model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/cpu/cpu_stage.h"
#include "trainer/model/model.h"
#include "trainer/run/text_codec.h"

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

/// Throws kInvalidUsage on an empty prompt, tokens or a temperature out of range, or a prompt with tokens
/// outside the vocabulary: before there is a model to write. Reads the tokenizer.
void check_generation(const Shape& shape, const GenerateOptions& options);

/// A whole model in one place, for one token after the other. One thread at a time.
class Generator {
 public:
  /// Throws what check_generation() and the back end throw, as where memory does not suffice.
  Generator(const Shape& shape, const GenerateOptions& options);

  /// Bytes, all kinds together, where the back end keeps them.
  std::size_t memory() const noexcept;

  /// `parameters`: the whole model in a checkpoint's order. The same arguments give the same text, whatever
  /// was generated before. Asks `stop_requested`, where there is one, before every token, and returns what it
  /// has when that says so.
  GeneratedText generate(std::span<const float> parameters, const std::function<bool()>& stop_requested = {});

 private:
  const Shape shape_;
  const GenerateOptions options_;
  const TextCodec codec_;
  const std::vector<std::int32_t> prompt_;
  const std::unique_ptr<StageCompute> compute_;
};

/// A Generator that is used once.
GeneratedText generate(const Shape& shape, std::span<const float> parameters, const GenerateOptions& options,
                       const std::function<bool()>& stop_requested = {});

}  // namespace tombolo::trainer
