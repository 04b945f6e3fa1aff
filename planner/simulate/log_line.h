// What one line of a training log says, and how figures are found in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tombolo::planner {

/// A line that tells how long steps took. Of seconds, tokens and rows per second it tells one.
struct LoggedStep {
  std::int64_t number = -1;      ///< of the last step that the line tells of; -1: not told
  double seconds = 0;            ///< per step
  double tokens_per_second = 0;  ///< per device
  double rows_per_second = 0;    ///< of all devices
  double flops_per_second = 0;   ///< of the model, per device; 0: not told
  int batch = 0;                 ///< rows per step; 0: not told
  bool apart = false;            ///< it took other work than a step: skipped its update, or held a checkpoint
  std::uint64_t line = 0;        ///< of the file, from 1
  std::int64_t epoch = 0;        ///< where `number` begins again in each epoch

  bool follows(const LoggedStep& other) const noexcept {
    return epoch != other.epoch ? epoch > other.epoch : number > other.number;
  }
};

/// What a log says of the job as a whole; 0: not told.
struct LoggedJob {
  int batch = 0, context = 0, devices = 0;
};

/// What a format finds in a line.
struct LogLine {
  std::optional<LoggedStep> step;
  std::string problem;    ///< why a line of steps cannot be read; empty where it can, or is not one
  bool starts = false;    ///< the job begins to train
  bool disturbs = false;  ///< the next line of a step holds other work too
  LoggedJob job;
};

/// The number after a title, where blanks may stand between: nothing where the line lacks the title, NaN
/// where neither 0 nor a number from 1e-9 to 1e15 follows, or one that runs into something else (a line torn
/// by another rank's). Thousands may be set apart by commas.
std::optional<double> number_after(std::string_view title, std::string_view line);

/// The whole number > 0 after a title, at most 1e9; 0 where there is none.
int count_after(std::string_view title, std::string_view line);

/// The number of the step after a title; -1 where there is none.
std::int64_t step_number_after(std::string_view title, std::string_view line);

/// The same as number_after() for what a step must have: a number > 0, else 0 and a problem that quotes what
/// follows the title. `required`: a line without the title has a problem too, and 0 counts as one.
double figure_after(std::string_view title, std::string_view line, bool required, std::string& problem);

}  // namespace tombolo::planner
