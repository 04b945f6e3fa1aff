#include "planner/model/model_library.h"

#include "base/error.h"
#include "planner/model/model_json.h"
#include "topology/files/library.h"

namespace tombolo::planner {
namespace {

constexpr std::string_view kShapeFile = ".json";

}  // namespace

ModelLibrary ModelLibrary::load() {
  return parse(JsonDocument::load(topology::library_file("models.json")));
}

ModelLibrary ModelLibrary::parse(const JsonDocument& document) {
  ModelLibrary library;
  const JsonCursor root = topology::library_root(document);
  root.only({"tombolo_library", "note", "models"});
  for (const auto& entry : root.field("models").elements()) {
    entry.only({"name", "aliases", "parameters", "active_parameters", "shape", "source"});
    LibraryModel model{.at = entry, .model = parse_model(entry.field("shape"))};
    model.model.name = library.names.add(entry);
    model.parameters = entry.field("parameters").positive_number();
    if (const auto active = entry.optional("active_parameters"))
      model.active_parameters = active->positive_number();
    (void)entry.field("source").text();
    library.models.push_back(std::move(model));
  }
  return library;
}

const LibraryModel& ModelLibrary::find(std::string_view name) const {
  if (const auto found = names.find(name)) return models[*found];
  const auto nearest = names.nearest(name);
  fail(Cause::kInvalidUsage,
       "the library has no model \"{}\"{}; `tombolo library models` lists them. A shape is given as "
       "layers=,hidden=,heads=,context=,vocabulary= or by a file that ends in {}",
       name, nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "", kShapeFile);
}

Model resolve_model(std::string_view text) {
  const std::string_view first = text.substr(0, text.find(','));
  if (first.empty() || first.find('=') != std::string_view::npos) return parse_model(text);
  const Model base = first.ends_with(kShapeFile) ? parse_model(JsonDocument::load(std::string(first)).root())
                                                 : ModelLibrary::load().find(first).model;
  return first.size() == text.size() ? base : parse_model(text.substr(first.size() + 1), base);
}

}  // namespace tombolo::planner
