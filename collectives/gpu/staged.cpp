#include "collectives/gpu/staged.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "transport/kernel.h"

namespace tombolo::collectives::gpu {
namespace {

/// Bytes of a copy at most. The program's own copies wait for no more than a few of them.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
/// Where areas begin in the block: a line of the cache.
constexpr std::size_t kAlignment = 64;

/// What work that is under way for longer than anybody waits writes to when it ends.
struct Notes {
  std::unique_ptr<transport::gpu::Copy[]> in, out;
  std::unique_ptr<Reducer> reducer;
};

void keep_for_good(Notes notes) {
  static std::mutex lock;
  static auto* const kept = new std::deque<Notes>;
  const std::lock_guard guard(lock);
  kept->push_back(std::move(notes));
}

}  // namespace

Staged::Staged(std::shared_ptr<Staging> staging, int gpu, std::vector<Buffer> buffers,
               CudaFunctions::Stream stream, std::optional<std::size_t> reduce_from)
    : staging_(std::move(staging)), gpu_(gpu), copier_(staging_->copier_of(gpu)), stream_(stream) {
  lay_out(buffers);
  block_ = staging_->take(gpu_, bytes_);
  try {
    for (const Buffer& buffer : buffers) {
      for (const Range& range : buffer.read) add(in_, buffer, range);
      for (const Range& range : buffer.written) add(out_, buffer, range);
    }
    for (Copies* one : {&in_, &out_})
      one->copies = std::make_unique<transport::gpu::Copy[]>(one->pieces.size());
    if (reduce_from) {
      reducer_ = std::make_unique<Reducer>(staging_->kernels_of(gpu_), *reduce_from);
      reducer_->add(block_.data, block_.bytes, staging_->seen_by(gpu_, block_));
    }
    event_ = staging_->record(gpu_, stream);
  } catch (...) {
    staging_->give_back(block_);
    throw;
  }
}

void Staged::take_scratch(std::size_t bytes) {
  if (bytes == 0) return;
  scratch_ = staging_->take(gpu_, bytes);
  reducer_->add(scratch_.data, scratch_.bytes, staging_->seen_by(gpu_, scratch_));
}

void Staged::lay_out(const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    std::size_t extent = 0;
    for (const auto* ranges : {&buffer.read, &buffer.written})
      for (const Range& range : *ranges) extent = std::max(extent, range.offset + range.bytes);
    areas_.push_back({buffer.at, extent, 0});
  }
  std::ranges::sort(areas_, {}, &Area::device);
  std::vector<Area> merged;
  for (const Area& area : areas_) {
    if (!merged.empty() && area.device < merged.back().device + merged.back().bytes) {
      Area& before = merged.back();
      before.bytes =
          std::max(before.bytes, static_cast<std::size_t>(area.device - before.device) + area.bytes);
    } else {
      merged.push_back(area);
    }
  }
  areas_ = std::move(merged);
  for (Area& area : areas_) {
    area.offset = bytes_;
    bytes_ += (area.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
}

void Staged::add(Copies& to, const Buffer& buffer, const Range& range) {
  for (std::size_t at = 0; at < range.bytes; at += kPieceBytes) {
    std::byte* device = buffer.at + range.offset + at;
    to.pieces.push_back({buffer.name, device, host(device), std::min(kPieceBytes, range.bytes - at)});
  }
  to.bytes += range.bytes;
}

std::byte* Staged::host(const void* device) const {
  const auto* at = static_cast<const std::byte*>(device);
  for (const Area& area : areas_)
    if (at >= area.device && at < area.device + area.bytes)
      return block_.data + area.offset + (at - area.device);
  fail(Cause::kInternal, "GPU {}: {} lies in no buffer of the call", gpu_, device);
}

bool Staged::progress() {
  if (!failure_.empty()) return false;
  switch (state_) {
    case State::kAwaitingStream:
      return await_stream();
    case State::kReading:
      return move(in_, State::kReady);
    case State::kWriting:
      return move(out_, State::kDone);
    case State::kReady:
      if (!reducer_ || reducer_->failure().empty()) return false;
      failure_ = reducer_->failure();
      return true;
    case State::kDone:
    case State::kEnded:
      break;
  }
  return false;
}

bool Staged::await_stream() {
  const CudaResult result = staging_->ask(gpu_, event_);
  if (result == CudaResult::kNotReady) return false;
  if (result != CudaResult::kSuccess) {
    failure_ = fmt::format("{} failed: {}; find the call on GPU {} that failed first in this program",
                           describe_wait(), copier_.describe(result), gpu_);
    return true;
  }
  give_event_back();
  state_ = State::kReading;
  move(in_, State::kReady);
  return true;
}

bool Staged::move(Copies& copies, State then) {
  using Copied = transport::gpu::Copy::State;
  bool moved = false;
  while (copies.begun < copies.pieces.size()) {
    const Piece& piece = copies.pieces[copies.begun];
    if (!copier_.start(copies.way, piece.host, piece.device, piece.bytes, copies.copies[copies.begun])) break;
    ++copies.begun;
    moved = true;
  }
  copier_.look();
  for (; copies.ended < copies.begun; ++copies.ended) {
    const transport::gpu::Copy& copy = copies.copies[copies.ended];
    const Copied state = copy.state.load(std::memory_order_acquire);
    if (state == Copied::kUnderWay) return moved;
    moved = true;
    if (state != Copied::kFailed) continue;
    const Piece& piece = copies.pieces[copies.ended];
    const bool reads = copies.way == Copier::Way::kToHost;
    failure_ = fmt::format(
        "copy {} bytes of the {} buffer, {}, {} GPU {} failed: {}; find the call on that GPU that failed "
        "first in this program",
        piece.bytes, piece.buffer, static_cast<const void*>(piece.device), reads ? "from" : "to", gpu_,
        copier_.describe(copy.result));
    return true;
  }
  if (copies.ended == copies.pieces.size()) {
    state_ = then;
    moved = true;
  }
  return moved;
}

void Staged::write_back() {
  state_ = State::kWriting;
  move(out_, State::kDone);
}

std::string Staged::describe_wait() const {
  switch (state_) {
    case State::kAwaitingStream:
      return fmt::format(
          "what was queued on {} of GPU {} before the call",
          stream_ == nullptr ? std::string("the default stream") : fmt::format("stream {}", stream_), gpu_);
    case State::kReading:
      return fmt::format("the copies of {} from GPU {}", format_size(in_.bytes), gpu_);
    case State::kWriting:
      return fmt::format("the copies of {} to GPU {}", format_size(out_.bytes), gpu_);
    case State::kReady:
      if (reducer_ && reducer_->is_under_way()) return reducer_->describe();
      break;
    case State::kDone:
    case State::kEnded:
      break;
  }
  return {};
}

void Staged::give_event_back() noexcept {
  if (event_ != nullptr) staging_->give_back(gpu_, std::exchange(event_, nullptr));
}

bool Staged::is_under_way() noexcept {
  if (copier_.gpu().usable()) copier_.look();
  for (const Copies* one : {&in_, &out_})
    for (std::size_t i = one->ended; i < one->begun; ++i)
      if (one->copies[i].state.load(std::memory_order_acquire) == transport::gpu::Copy::State::kUnderWay)
        return true;
  return reducer_ && reducer_->touches_memory();
}

void Staged::end() noexcept {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  give_event_back();
  const auto deadline = Deadline::after(staging_->copy_time());
  bool under_way = is_under_way();
  while (under_way && copier_.gpu().usable() && !deadline.passed()) {
    transport::kernel().sched_yield();
    under_way = is_under_way();
  }
  if (!under_way) {
    staging_->give_back(block_);
    if (scratch_.data != nullptr) staging_->give_back(scratch_);
    return;
  }
  keep_for_good({std::move(in_.copies), std::move(out_.copies), std::move(reducer_)});
}

}  // namespace tombolo::collectives::gpu
