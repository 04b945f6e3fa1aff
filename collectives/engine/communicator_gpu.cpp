// A communicator's calls on GPU memory: staged through host memory, so that the other ranks notice nothing.
#include <array>
#include <utility>

#include "base/error.h"
#include "collectives/engine/communicator_state.h"
#include "collectives/engine/used_buffers.h"
#include "collectives/gpu/device_memory.h"

namespace tombolo::collectives {

bool Communicator::State::may_be_on_gpu(const CollectiveCall& call) noexcept {
  // A program that had no CUDA can hardly have made GPU memory of the buffers of its last call; where calls
  // take less than a microsecond, so the look at its libraries is worth sparing.
  constexpr unsigned kMostUnseen = 64;
  const std::array<const void*, 3> buffers{call.send, call.receive, call.residual};
  if (buffers == looked_at && ++unseen < kMostUnseen) return false;
  unseen = 0;
  if (gpu::program_driver() == nullptr) {
    looked_at = buffers;
    return false;
  }
  looked_at.fill(this);  // no buffer is there
  return (gpu::gpu_of(call.send) || gpu::gpu_of(call.receive) || gpu::gpu_of(call.residual));
}

std::shared_ptr<gpu::Staged> Communicator::State::stage(std::string_view what,
                                                        const std::vector<gpu::Buffer>& buffers, void* stream,
                                                        std::optional<std::size_t> reduce_from) {
  std::vector<gpu::Buffer> on_gpu;
  int ordinal = 0;
  for (const gpu::Buffer& buffer : buffers) {
    const auto found = gpu::gpu_of(buffer.at);
    if (!found) continue;
    if (!on_gpu.empty() && *found != ordinal) {
      fail(Cause::kInvalidUsage,
           "{}: the {} buffer, {}, is on GPU {}, and the {} buffer, {}, on GPU {}: a call takes memory of "
           "one GPU",
           what, on_gpu.front().name, static_cast<const void*>(on_gpu.front().at), ordinal, buffer.name,
           static_cast<const void*>(buffer.at), *found);
    }
    ordinal = *found;
    on_gpu.push_back(buffer);
  }
  if (on_gpu.empty()) return nullptr;
  try {
    if (!staging) staging = gpu::Staging::of_process();
    return std::make_shared<gpu::Staged>(staging, ordinal, std::move(on_gpu), stream, reduce_from);
  } catch (const Error& error) {
    const std::string text = fmt::format("{}: {}", what, error.what());
    if (error.cause() == Cause::kInvalidUsage) fail(error.cause(), "{}", text);
    end_with(error.cause(), text);
  }
}

std::shared_ptr<gpu::Staged> Communicator::State::stage(CollectiveCall& call, bool in_place) {
  const auto buffers = used_buffers(call, options.identity.rank, options.identity.size);
  auto made = stage(collective_name(call.collective), buffers, call.stream,
                    mesh && is_reduction(call.collective) ? options.gpu_reduce_from : std::nullopt);
  if (!made) return nullptr;
  const CollectiveCall given = call;
  for (const gpu::Buffer& buffer : buffers) {
    if (!gpu::gpu_of(buffer.at)) continue;
    std::byte* const at = made->host(buffer.at);
    if (buffer.at == reinterpret_cast<std::byte*>(given.residual))
      call.residual = reinterpret_cast<float*>(at);
    if (buffer.at == given.send) call.send = at;
    if (buffer.at == given.receive) call.receive = at;
    if (!in_place) continue;
    // The other one is where it was beside this one, also where nothing of it is used, as without a part.
    const auto* send = static_cast<const std::byte*>(given.send);
    auto* receive = static_cast<std::byte*>(given.receive);
    if (buffer.at == send) call.receive = at + (receive - send);
    if (buffer.at == receive) call.send = at + (send - receive);
  }
  return made;
}

std::shared_ptr<gpu::Staged> Communicator::State::stage(std::string_view what, const void*& data,
                                                        std::size_t bytes, bool sending, void* stream) {
  if (bytes == 0 || gpu::program_driver() == nullptr) return nullptr;
  gpu::Buffer buffer{what, static_cast<std::byte*>(const_cast<void*>(data)), {}, {}};
  (sending ? buffer.read : buffer.written) = {{0, bytes}};
  auto made = stage(what, {buffer}, stream, std::nullopt);
  if (made) data = made->host(data);
  return made;
}

void Communicator::State::prepare_reduction(gpu::Staged& on, const ScheduleKey& key, const Choice& choice) {
  if (on.reducer() == nullptr) return;
  try {
    on.take_scratch(schedule_for(key, choice)->scratch_bytes);
  } catch (const Error& error) {
    end_with(error.cause(), fmt::format("{}: {}", collective_name(key.collective), error.what()));
  }
}

void Communicator::State::run_deferred(const CollectiveCall& call) {
  const StartedCollective started = start(call, 0);
  wait_for(started);
}

bool Communicator::State::progress_staged() {
  bool moved = false;
  for (const StagedCall& one : staged) {
    moved |= one.staged->progress();
    if (one.staged->failure().empty()) continue;
    if (!gpu_failure.empty()) return false;
    gpu_failure = one.staged->failure();
    return true;
  }
  for (; !deferred.empty(); deferred.pop_front()) {
    DeferredCollective& next = *deferred.front();
    if (next.staged && !next.staged->is_ready()) break;
    next.by = begin(next.call, next.key, next.choice, next.channel, next.staged.get());
    next.begun = moved = true;
  }
  std::erase_if(staged, [&](const StagedCall& one) {
    if (one.staged->is_ready() && one.carried_out()) {
      one.staged->write_back();
      moved = true;
    }
    return one.staged->is_done();
  });
  return moved;
}

void Communicator::State::end_staged() noexcept {
  for (const StagedCall& one : staged) one.staged->end();
  staged.clear();
  deferred.clear();
}

}  // namespace tombolo::collectives
