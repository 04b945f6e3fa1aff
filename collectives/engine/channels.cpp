#include "collectives/engine/channels.h"

#include <algorithm>
#include <utility>

namespace tombolo::collectives {

Channels::Channel::Channel(Mesh& mesh, Traffic traffic)
    : executor([&mesh, traffic](int peer) { return mesh.open(traffic, peer); }), queue(executor) {}

Channels::Channels(Mesh& mesh)
    : channels_{{{mesh, kChannelTraffic[0]},
                 {mesh, kChannelTraffic[1]},
                 {mesh, kChannelTraffic[2]},
                 {mesh, kChannelTraffic[3]}}} {}

Channels::Ticket Channels::start(std::size_t channel, Executor::Task task) {
  return {channel, channels_[channel].queue.push(std::move(task))};
}

bool Channels::idle() const noexcept {
  return std::ranges::all_of(channels_, [](const Channel& one) { return one.queue.idle(); });
}

void Channels::clear() noexcept {
  for (Channel& one : channels_) one.queue.clear();
}

bool Channels::progress() {
  bool moved = false;
  for (Channel& one : channels_) moved |= one.queue.progress();
  return moved;
}

bool Channels::progress_connections() noexcept {
  bool moved = false;
  for (Channel& one : channels_) {
    if (!one.queue.idle()) moved |= one.executor.progress_connections();
  }
  return moved;
}

void Channels::append_wait_handles(std::vector<pollfd>& handles) const {
  for (const Channel& one : channels_) {
    if (!one.queue.idle()) one.executor.append_wait_handles(handles);
  }
}

bool Channels::awaits_arrival() const noexcept {
  return std::ranges::any_of(
      channels_, [](const Channel& one) { return !one.queue.idle() && one.executor.awaits_arrival(); });
}

std::optional<Channels::Failure> Channels::failure() const {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (const auto& failed = channels_[i].executor.failure())
      return Failure{kChannelTraffic[i], failed->peer, failed->text};
  }
  return std::nullopt;
}

void Channels::append_waits(std::size_t channel, std::vector<ReportedWait>& waits,
                            std::uint64_t number) const {
  channels_[channel].executor.append_waits(waits, number,
                                           static_cast<std::int64_t>(kChannelTraffic[channel]));
}

std::optional<Channels::Awaited> Channels::awaited(Ticket ticket) const noexcept {
  const Executor& executor = channels_[ticket.channel].executor;
  const int peer = executor.awaited_peer();
  if (peer < 0 || executor.failure()) return std::nullopt;
  return Awaited{kChannelTraffic[ticket.channel], peer};
}

}  // namespace tombolo::collectives
