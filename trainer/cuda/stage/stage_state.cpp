#include "trainer/cuda/stage/stage_state.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer::cuda {
namespace {

/// The piece of an arena that is read or written at once, and what it becomes when it must begin and end
/// where vectors of 16 do.
struct StatePiece {
  StatePiece(std::size_t offset, std::size_t left)
      : begin(offset),
        count(std::min(left, kStatePiece)),
        aligned_begin(begin / 16 * 16),
        aligned_count((begin + count + 15) / 16 * 16 - aligned_begin) {}
  std::size_t begin, count, aligned_begin, aligned_count;
};

void check_range(std::size_t offset, std::size_t count, std::size_t arena) {
  if (offset > arena || count > arena - offset)
    fail(Cause::kInternal, "stage state: {} floats from {} on, but the arena has {}", count, offset, arena);
}

}  // namespace

DeviceState::DeviceState(StageContext& stage) : stage_(stage) {
  const auto clear = [&](const Values& values) {
    stage.device->clear(Stream::kCompute, values.at, stage.sizes.arena * element_bytes(values.element));
  };
  clear(fp32(stage.buffers.master));
  if (stage.buffers.copy.at != nullptr) clear(stage.buffers.copy);
  if (!stage.sizes.training) return;
  clear(stage.buffers.first_moment);
  clear(stage.buffers.second_moment);
}

void DeviceState::check(StageState state, std::size_t offset, std::size_t count) const {
  if (state != StageState::kParameters && !stage_.options.training)
    fail(Cause::kInternal, "a stage that does not train has no moments");
  check_range(offset, count, stage_.sizes.arena);
}

Values DeviceState::values(StageState state) const noexcept {
  if (state == StageState::kParameters) return fp32(stage_.buffers.master);
  return state == StageState::kFirstMoment ? stage_.buffers.first_moment : stage_.buffers.second_moment;
}

void DeviceState::read(StageState state, std::size_t offset, std::span<float> to) const {
  check(state, offset, to.size());
  read(values(state), offset, to);
}

void DeviceState::read_gradients(std::size_t offset, std::span<float> to) const {
  if (!stage_.options.training) fail(Cause::kInternal, "a stage that does not train has no gradients");
  check_range(offset, to.size(), stage_.sizes.arena);
  read(fp32(stage_.buffers.gradients), offset, to);
}

void DeviceState::read(const Values& arena, std::size_t offset, std::span<float> to) const {
  for (std::size_t done = 0; done < to.size();) {
    const StatePiece piece(offset + done, to.size() - done);
    const float* from = nullptr;
    if (arena.element == Element::kBfloat16) {
      stage_.device->run(
          Stream::kCompute,
          Convert{fp32(stage_.buffers.state), from_element(arena, piece.aligned_begin), piece.aligned_count});
      from = stage_.buffers.state + (piece.begin - piece.aligned_begin);
    } else {
      from = reinterpret_cast<const float*>(arena.at) + piece.begin;
    }
    stage_.device->copy(Stream::kCompute, stage_.host.state, from, piece.count * sizeof(float));
    stage_.settle();
    std::copy_n(stage_.host.state, piece.count, to.begin() + static_cast<std::ptrdiff_t>(done));
    done += piece.count;
  }
}

void DeviceState::write(StageState state, std::size_t offset, std::span<const float> from) {
  check(state, offset, from.size());
  for (std::size_t done = 0; done < from.size();) {
    const StatePiece piece(offset + done, from.size() - done);
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(done), piece.count, stage_.host.state);
    const Values to = from_element(values(state), piece.aligned_begin);
    if (to.element == Element::kBfloat16) {
      // What lies around the piece is read before it is written again: it comes back as it was.
      const Values wide = fp32(stage_.buffers.state);
      stage_.device->run(Stream::kCompute, Convert{wide, to, piece.aligned_count});
      stage_.device->copy(Stream::kCompute, stage_.buffers.state + (piece.begin - piece.aligned_begin),
                          stage_.host.state, piece.count * sizeof(float));
      stage_.device->run(Stream::kCompute, Convert{to, wide, piece.aligned_count});
    } else {
      stage_.device->copy(Stream::kCompute, from_element(values(state), piece.begin).at, stage_.host.state,
                          piece.count * sizeof(float));
    }
    if (state == StageState::kParameters) refresh_copy(piece.aligned_begin, piece.aligned_count);
    stage_.settle();
    done += piece.count;
  }
}

void DeviceState::refresh_copy(std::size_t begin, std::size_t count) {
  if (stage_.buffers.copy.at == nullptr) return;
  stage_.device->run(Stream::kCompute, Convert{from_element(stage_.buffers.copy, begin),
                                               fp32(stage_.buffers.master + begin), count});
}

}  // namespace tombolo::trainer::cuda
