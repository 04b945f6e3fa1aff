#include "collectives/schedule/schedule.h"

#include <algorithm>

namespace tombolo::collectives {
namespace {

/// Scratch places start on cache lines, so that two of them never share one.
constexpr std::size_t kScratchAlignment = 64;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace

Piece ScheduleBuilder::place(Piece piece) const noexcept {
  if (in_place_ && piece.buffer == Buffer::kInput) return {Buffer::kOutput, piece.offset + input_in_output_};
  return piece;
}

Piece ScheduleBuilder::products_of(Piece piece, std::size_t bytes) {
  if (!multiplies(piece) || bytes == 0) return piece;
  const Piece products = scratch(bytes);
  copy(products, piece, bytes);
  return products;
}

void ScheduleBuilder::send(int peer, Piece from, std::size_t bytes) {
  from = products_of(from, bytes);
  Step step;
  step.kind = StepKind::kSend;
  step.peer = peer;
  step.left = place(from);
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::receive(int peer, Piece into, std::size_t bytes) {
  Step step;
  step.kind = StepKind::kReceive;
  step.peer = peer;
  step.target = place(into);
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::combine(Piece target, Piece left, Piece right, std::size_t bytes) {
  if (multiplies(left) && multiplies(right)) right = products_of(right, bytes);
  Step step;
  step.premultiplied = multiplies(left)    ? Premultiplied::kLeft
                       : multiplies(right) ? Premultiplied::kRight
                                           : Premultiplied::kNone;
  step.kind = StepKind::kCombine;
  step.target = place(target);
  step.left = place(left);
  step.right = place(right);
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::copy(Piece target, Piece from, std::size_t bytes) {
  Step step;
  step.kind = StepKind::kCopy;
  step.target = place(target);
  step.left = place(from);
  step.bytes = bytes;
  if (multiplies(from)) {
    step.premultiplied = Premultiplied::kLeft;
  } else if (step.target.buffer == step.left.buffer && step.target.offset == step.left.offset) {
    return;
  }
  add(step);
}

void ScheduleBuilder::divide(Piece target, std::size_t bytes) {
  Step step;
  step.kind = StepKind::kDivide;
  step.target = place(target);
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::encode(Piece target, Piece from, std::size_t bytes,
                             std::optional<std::size_t> element) {
  from = products_of(from, bytes);
  Step step;
  step.kind = StepKind::kEncode;
  step.target = place(target);
  step.left = place(from);
  if (element) step.right = {Buffer::kResidual, static_cast<std::ptrdiff_t>(*element * sizeof(float))};
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::decode(Piece target, Piece from, std::size_t bytes) {
  Step step;
  step.kind = StepKind::kDecode;
  step.target = place(target);
  step.left = place(from);
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::decode_add(Piece target, Piece from, Piece right, std::size_t bytes) {
  right = products_of(right, bytes);
  Step step;
  step.kind = StepKind::kDecodeAdd;
  step.target = place(target);
  step.left = place(from);
  step.right = place(right);
  step.bytes = bytes;
  add(step);
}

void ScheduleBuilder::fence() {
  const auto here = static_cast<std::uint32_t>(schedule_.steps.size());
  schedule_.steps.push_back(Step{});
  for (std::uint32_t before = since_fence_; before < here; ++before) edges_.emplace_back(before, here);
  fence_ = here;
  since_fence_ = here;
}

void ScheduleBuilder::add(Step step) {
  if (step.bytes == 0) return;
  const auto here = static_cast<std::uint32_t>(schedule_.steps.size());
  schedule_.steps.push_back(step);
  waits_.clear();
  if (fence_ != kNoStep) depend(fence_);
  switch (step.kind) {
    case StepKind::kSend:
      read(step.left, step.bytes, here);
      break;
    case StepKind::kReceive:
    case StepKind::kDivide:
      write(step.target, step.bytes, here);
      break;
    case StepKind::kCombine:
      read(step.left, step.bytes, here);
      read(step.right, step.bytes, here);
      write(step.target, step.bytes, here);
      break;
    case StepKind::kCopy:
      read(step.left, step.bytes, here);
      write(step.target, step.bytes, here);
      break;
    case StepKind::kEncode:
      read(step.left, step.bytes, here);
      write(step.target, encoded(step.bytes), here);
      break;
    case StepKind::kDecodeAdd:
      read(step.right, step.bytes, here);
      [[fallthrough]];
    case StepKind::kDecode:
      read(step.left, encoded(step.bytes), here);
      write(step.target, step.bytes, here);
      break;
    case StepKind::kFence:
      break;
  }
  std::sort(waits_.begin(), waits_.end());
  waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
  for (const std::uint32_t before : waits_) {
    if (before != here) edges_.emplace_back(before, here);
  }
}

void ScheduleBuilder::depend(std::uint32_t on) {
  if (on != kNoStep) waits_.push_back(on);
}

/// Makes `at` a border between ranges.
void ScheduleBuilder::cut(Ranges& ranges, std::ptrdiff_t at) {
  auto after = ranges.upper_bound(at);
  if (after == ranges.begin()) return;
  auto& [begin, range] = *std::prev(after);
  if (begin == at || range.end <= at) return;
  Range right = range;
  range.end = at;
  ranges.emplace_hint(after, at, std::move(right));
}

void ScheduleBuilder::read(Piece piece, std::size_t bytes, std::uint32_t step) {
  if (piece.buffer == Buffer::kInput) return;  // the input is never written
  Ranges& ranges = ranges_[static_cast<int>(piece.buffer)];
  const std::ptrdiff_t end = piece.offset + static_cast<std::ptrdiff_t>(bytes);
  cut(ranges, piece.offset);
  cut(ranges, end);
  std::ptrdiff_t at = piece.offset;
  auto one = ranges.lower_bound(at);
  while (at < end) {
    if (one == ranges.end() || one->first > at) {  // no step has touched this gap yet
      const std::ptrdiff_t until = one == ranges.end() ? end : std::min(end, one->first);
      ranges.emplace_hint(one, at, Range{until, kNoStep, {step}});
      at = until;
    } else {
      depend(one->second.writer);
      one->second.readers.push_back(step);
      at = one->second.end;
      ++one;
    }
  }
}

void ScheduleBuilder::write(Piece piece, std::size_t bytes, std::uint32_t step) {
  Ranges& ranges = ranges_[static_cast<int>(piece.buffer)];
  const std::ptrdiff_t end = piece.offset + static_cast<std::ptrdiff_t>(bytes);
  cut(ranges, piece.offset);
  cut(ranges, end);
  auto first = ranges.lower_bound(piece.offset);
  auto last = first;
  for (; last != ranges.end() && last->first < end; ++last) {
    // Readers have waited for the writer already.
    if (last->second.readers.empty()) depend(last->second.writer);
    for (const std::uint32_t reader : last->second.readers) depend(reader);
    // A step that reads what it writes (target = target op other) still follows the writer.
    depend(last->second.writer);
  }
  ranges.erase(first, last);
  ranges.emplace(piece.offset, Range{end, step, {}});
}

Piece ScheduleBuilder::scratch(std::size_t bytes) {
  const Piece piece{Buffer::kScratch, static_cast<std::ptrdiff_t>(schedule_.scratch_bytes)};
  schedule_.scratch_bytes += aligned(bytes);
  return piece;
}

Schedule ScheduleBuilder::build(std::string_view algorithm) {
  schedule_.algorithm = algorithm;
  const std::size_t count = schedule_.steps.size();
  schedule_.dependencies.assign(count, 0);
  schedule_.dependents_begin.assign(count + 1, 0);
  schedule_.dependents.resize(edges_.size());
  for (const auto& [from, to] : edges_) {
    ++schedule_.dependents_begin[from + 1];
    ++schedule_.dependencies[to];
  }
  for (std::size_t i = 0; i < count; ++i) schedule_.dependents_begin[i + 1] += schedule_.dependents_begin[i];
  std::vector<std::uint32_t> next(schedule_.dependents_begin.begin(), schedule_.dependents_begin.end() - 1);
  for (const auto& [from, to] : edges_) schedule_.dependents[next[from]++] = to;
  std::map<int, Flow> flows;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Step& step = schedule_.steps[i];
    if (step.kind == StepKind::kSend) flows[step.peer].sends.push_back(i);
    if (step.kind == StepKind::kReceive) flows[step.peer].receives.push_back(i);
  }
  for (auto& [peer, flow] : flows) {
    flow.peer = peer;
    schedule_.flows.push_back(std::move(flow));
  }
  return std::move(schedule_);
}

ScratchRing::ScratchRing(ScheduleBuilder& builder, std::size_t slot_bytes, std::size_t slots)
    : slot_bytes_(aligned(slot_bytes)), slots_(std::max<std::size_t>(slots, 1)) {
  base_ = builder.scratch(slot_bytes_ * slots_);
}

Piece ScratchRing::next(std::size_t count) noexcept {
  const Piece place = base_ + slot_bytes_ * (turn_ % slots_);
  turn_ += count;
  return place;
}

}  // namespace tombolo::collectives
