// Shapes of published models by name: the file library/models.json, whose fields docs/library.md describes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "planner/model/model.h"
#include "topology/files/library_names.h"

namespace tombolo::planner {

struct LibraryModel {
  JsonCursor at;          ///< where the entry stands
  Model model;            ///< under the entry's name
  double parameters = 0;  ///< as published
  double active_parameters =
      0;  ///< of a mixture of experts those that a token passes through; 0: not published
};

/// Immutable once read.
struct ModelLibrary {
  std::vector<LibraryModel> models;
  topology::LibraryNames names;

  /// Reads models.json from where topology::library_file() finds it. Throws kInvalidUsage naming file, line
  /// and field.
  static ModelLibrary load();
  static ModelLibrary parse(const JsonDocument& document);
  /// The model of that name. Throws kInvalidUsage with the nearest name.
  const LibraryModel& find(std::string_view name) const;
};

/// The model that a user names: an entry of the library ("gpt3-7.5b") or a file with a shape ("mine.json"),
/// changed by the fields that follow ("llama3-8b,context=4096"), or fields alone ("layers=8,hidden=128,...").
/// Throws kInvalidUsage.
Model resolve_model(std::string_view text);

}  // namespace tombolo::planner
