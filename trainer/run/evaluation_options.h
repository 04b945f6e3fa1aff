// What a run is asked to tell about its model while it trains.
#pragma once

#include <string>

namespace tombolo::trainer {

struct EvaluationOptions {
  std::string validation;    ///< data of its own, as TrainOptions::data; empty: none
  int validate_every = 0;    ///< steps; 0: after the last step only
  int validation_rows = 64;  ///< at most; always whole batches, and at least one
  int sample_every = 0;      ///< steps; 0: none

  /// Throws kInvalidUsage naming the number that is out of range, or an option without the one it belongs to.
  void check() const;
};

}  // namespace tombolo::trainer
