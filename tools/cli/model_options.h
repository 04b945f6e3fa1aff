// The options --model and the five sizes, of every command that needs a model's shape.
#pragma once

#include <string>

#include "planner/model/model.h"

namespace CLI {
class App;
}

namespace tombolo::tools {

struct ModelOptions {
  std::string model;
  int layers = 0, width = 0, heads = 0, context = 0, vocabulary = 0;

  void add_to(CLI::App& app);
  /// Whether the user gave any of them.
  bool given() const noexcept {
    return !model.empty() || layers > 0 || width > 0 || heads > 0 || context > 0 || vocabulary > 0;
  }
  /// Throws kInvalidUsage naming what is missing or impossible.
  planner::Model resolve() const;
};

}  // namespace tombolo::tools
