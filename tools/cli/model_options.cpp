#include "tools/cli/model_options.h"

#include <CLI/CLI.hpp>

#include "planner/model/model_library.h"
#include "tools/cli/validators.h"

namespace tombolo::tools {

void ModelOptions::add_to(CLI::App& app) {
  app.add_option(
      "--model", model,
      "A name from `tombolo library models`, or a file FILE.json with a shape; after it, or alone, "
      "layers=,hidden=,heads=,context=,vocabulary=,bytes= (per value)");
  const auto shape = [&](const char* flag, int& value, const char* text) {
    app.add_option(flag, value, text)->check(above_zero);
  };
  shape("--layers", layers, "Layers; this and the next four override --model");
  shape("--width", width, "Hidden size");
  shape("--heads", heads, "Attention heads");
  shape("--context", context, "Tokens per row");
  shape("--vocabulary", vocabulary, "Default 256: bytes");
}

planner::Model ModelOptions::resolve() const {
  planner::Model found = planner::resolve_model(model);
  if (layers > 0) found.layers = layers;
  if (width > 0) found.hidden = width;
  if (heads > 0) found.heads = heads;
  if (context > 0) found.context = context;
  if (vocabulary > 0) found.vocabulary = vocabulary;
  if (found.vocabulary == 0) found.vocabulary = 256;  // as in `tombolo train`, which reads bytes
  if (found.name.empty()) found.name = "gpt";
  found.check();
  return found;
}

}  // namespace tombolo::tools
