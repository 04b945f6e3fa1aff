#include "tools/cli/json_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::tools {
namespace {

constexpr const char* kOption = "--config";

/// What stands on a command line for the value.
std::string word_of(const JsonCursor& value) {
  if (value.is_text()) return value.text();
  const Json& raw = value.raw();
  if (raw.is_boolean() || raw.is_number()) return raw.dump();
  value.reject("expected a text, a number, true or false, or a list of these");
}

std::vector<std::string> words_of(const JsonCursor& value) {
  if (!value.is_array()) return {word_of(value)};
  std::vector<std::string> words;
  for (const JsonCursor& element : value.elements()) words.push_back(word_of(element));
  return words;
}

void set(CLI::App& app, std::string name, const JsonCursor& value) {
  std::ranges::replace(name, '_', '-');
  CLI::Option* option = app.get_option_no_throw("--" + name);
  if (option == nullptr || option == app.get_option(kOption) || name == "help")
    value.reject(
        fmt::format("there is no option --{} to set in a file; {} --help lists them", name, app.get_name()));
  if (value.raw().is_null() || option->count() > 0) return;
  try {
    const bool is_flag = option->get_expected_min() == 0;
    for (const std::string& word : words_of(value))
      option->add_result(is_flag ? option->get_flag_value(name, word) : word);
    option->run_callback();
  } catch (const CLI::ParseError& error) {
    value.reject(error.what());
  }
}

}  // namespace

void add_json_config(CLI::App& app) {
  app.add_option_function<std::string>(
      kOption,
      [&app](const std::string& path) {
        const JsonDocument document = JsonDocument::load(path);
        for (const auto& [name, value] : document.root().members()) set(app, name, value);
      },
      "JSON file with any of these options as members; the command line wins");
}

}  // namespace tombolo::tools
