#include "bench/planner_eval/testing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tombolo::bench {

nlohmann::json figure_of(const EvaluationReport& report, const std::string& name) {
  nlohmann::json found;
  const nlohmann::json all = report.json();
  for (const auto& section : all.at("sections")) {
    if (!section.contains("figures")) continue;
    for (const auto& figure : section.at("figures")) {
      if (figure.at("name").get<std::string>().find(name) == std::string::npos) continue;
      EXPECT_TRUE(found.is_null()) << "two figures are of " << name;
      found = figure;
    }
  }
  EXPECT_FALSE(found.is_null()) << "no figure is of " << name << ":\n" << report.table();
  if (found.is_null()) found = {{"name", ""}, {"wanted", ""}, {"seen", ""}, {"met", false}};
  return found;
}

std::string seen_of(const EvaluationReport& report, const std::string& name) {
  return figure_of(report, name).at("seen");
}

std::string notes_of(const EvaluationReport& report) {
  std::string text;
  const nlohmann::json all = report.json();
  for (const auto& section : all.at("sections"))
    for (const auto& note : section.at("notes")) text += note.get<std::string>() + '\n';
  return text;
}

}  // namespace tombolo::bench
