#include "trainer/cuda/memory/memory_plan.h"

#include <algorithm>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::trainer::cuda {
namespace {

std::string_view use_name(MemoryUse use) {
  switch (use) {
    case MemoryUse::kParameters:
      return "parameters";
    case MemoryUse::kGradients:
      return "gradients";
    case MemoryUse::kOptimizer:
      return "optimizer";
    case MemoryUse::kActivations:
      return "activations";
    case MemoryUse::kBuffers:
      return "buffers";
  }
  return {};
}

}  // namespace

std::size_t MemoryPlan::take(MemoryUse use, std::string_view name, std::size_t bytes) {
  const std::size_t begin = bytes_;
  const std::size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  bytes_ += taken;
  const auto line =
      std::ranges::find_if(lines_, [&](const Line& other) { return other.use == use && other.name == name; });
  if (line == lines_.end()) {
    lines_.push_back({use, std::string(name), 1, taken});
  } else {
    ++line->pieces;
    line->bytes += taken;
  }
  return begin;
}

std::size_t MemoryPlan::bytes(MemoryUse use) const noexcept {
  std::size_t total = 0;
  for (const Line& line : lines_)
    if (line.use == use) total += line.bytes;
  return total;
}

std::string MemoryPlan::table(std::string_view title) const {
  std::string text;
  const auto add = [&](std::string_view use, std::string_view name, std::size_t pieces, std::size_t bytes) {
    text += fmt::format("  {:<12} {:<32}{:>6}{:>12}{:>7.1f} %\n", use, name, pieces, format_size(bytes),
                        bytes_ == 0 ? 0.0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(bytes_));
  };
  std::size_t pieces = 0;
  for (const Line& line : lines_) pieces += line.pieces;
  text += fmt::format("{}:\n", title);
  for (const Line& line : lines_) add(use_name(line.use), line.name, line.pieces, line.bytes);
  add("", "in all", pieces, bytes_);
  return text;
}

}  // namespace tombolo::trainer::cuda
