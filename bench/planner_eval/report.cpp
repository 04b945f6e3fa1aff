#include "bench/planner_eval/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace tombolo::bench {

namespace {

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t j = i; j < end; ++j) ranks[order[j]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return ranks;
}

}  // namespace

void EvaluationReport::section(std::string title) {
  sections_.push_back({std::move(title), {}, {}});
}

void EvaluationReport::line(std::string name, std::string wanted, std::string seen, bool met) {
  all_met_ &= met;
  sections_.back().lines.push_back({std::move(name), std::move(wanted), std::move(seen), met});
}

void EvaluationReport::note(std::string text) {
  sections_.back().notes.push_back(std::move(text));
}

std::string EvaluationReport::table() const {
  std::string text;
  for (const Section& section : sections_) {
    text += section.title + '\n';
    for (const Line& line : section.lines)
      text += fmt::format("  {:<58} wanted {:<22} seen {:<34} {}\n", line.name, line.wanted, line.seen,
                          line.met ? "met" : "MISSED");
    for (const std::string& note : section.notes) text += "  " + note + '\n';
    text += '\n';
  }
  return text;
}

std::string EvaluationReport::markdown() const {
  std::string text;
  for (const Section& section : sections_) {
    text += "## " + section.title + "\n\n";
    if (!section.lines.empty()) text += "| figure | wanted | seen | |\n|---|---|---|---|\n";
    for (const Line& line : section.lines)
      text += fmt::format("| {} | {} | {} | {} |\n", line.name, line.wanted, line.seen,
                          line.met ? "met" : "**missed**");
    text += '\n';
    for (const std::string& note : section.notes) text += "* " + note + '\n';
    if (!section.notes.empty()) text += '\n';
  }
  return text;
}

nlohmann::json EvaluationReport::json() const {
  nlohmann::json all = nlohmann::json::array();
  for (const Section& section : sections_) {
    nlohmann::json one = {{"title", section.title}, {"notes", section.notes}};
    for (const Line& line : section.lines)
      one["figures"].push_back(
          {{"name", line.name}, {"wanted", line.wanted}, {"seen", line.seen}, {"met", line.met}});
    all.push_back(std::move(one));
  }
  return {{"sections", all}, {"all_met", all_met_}};
}

double rank_correlation(const std::vector<double>& one, const std::vector<double>& other) {
  TOMBOLO_CHECK(one.size() == other.size() && one.size() > 1, "one={} other={}", one.size(), other.size());
  const std::vector<double> a = ranks_of(one), b = ranks_of(other);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double both = 0, squares_a = 0, squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    squares_a += (a[i] - mean) * (a[i] - mean);
    squares_b += (b[i] - mean) * (b[i] - mean);
  }
  return both / std::sqrt(squares_a * squares_b);
}

double mean_absolute_error(const std::vector<double>& predicted, const std::vector<double>& measured) {
  double sum = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) sum += std::abs(predicted[i] / measured[i] - 1);
  return sum / static_cast<double>(predicted.size());
}

std::string skipped_without(const std::string& path, const EvaluationOptions& options) {
  return "skipped: the data have no " + std::filesystem::path(path).lexically_relative(options.data).string();
}

}  // namespace tombolo::bench
