// The ten collectives of nccl-tests, in the public interface's calls.
#include <cstring>

#include "bench/perf/collective.h"

namespace tombolo::bench {
namespace {

// ---- Bandwidth factors

/// What a rank does not have itself.
double others(int ranks) {
  return static_cast<double>(ranks - 1) / ranks;
}
/// To reduce and to hand out again.
double twice_others(int ranks) {
  return 2 * others(ranks);
}

// ---- What results are

Origin reduced(const Place&, std::size_t index) {
  return {Origin::kReduced, index};
}
Origin reduced_on_root(const Place& place, std::size_t index) {
  return {place.rank == place.root ? Origin::kReduced : Origin::kUntouched, index};
}
Origin reduced_part(const Place& place, std::size_t index) {
  return {Origin::kReduced, static_cast<std::size_t>(place.rank) * place.count + index};
}
Origin from_root(const Place& place, std::size_t index) {
  return {Origin::kCopy, index, place.root};
}
Origin part_of_root(const Place& place, std::size_t index) {
  return {Origin::kCopy, static_cast<std::size_t>(place.rank) * place.count + index, place.root};
}
Origin joined(const Place& place, std::size_t index) {
  return {Origin::kCopy, index % place.count, static_cast<int>(index / place.count)};
}
Origin joined_on_root(const Place& place, std::size_t index) {
  return place.rank == place.root ? joined(place, index) : Origin{Origin::kUntouched};
}
Origin exchanged(const Place& place, std::size_t index) {
  return {Origin::kCopy, static_cast<std::size_t>(place.rank) * place.count + index % place.count,
          static_cast<int>(index / place.count)};
}
Origin from_the_rank_before(const Place& place, std::size_t index) {
  return {Origin::kCopy, index, (place.rank + place.ranks - 1) % place.ranks};
}

// ---- Calls

std::size_t part_bytes(const Call& call) {
  return call.count * tomboloTypeSize(call.type);
}

void send_part(const Call& call, const std::byte* data, int peer) {
  call.communicator.send(data, call.count, call.type, peer);
}
void receive_part(const Call& call, std::byte* data, int peer) {
  call.communicator.receive(data, call.count, call.type, peer);
}

void all_reduce(const Call& call) {
  call.communicator.all_reduce(call.send, call.receive, call.count, call.type, call.op);
}
void reduce(const Call& call) {
  call.communicator.reduce(call.send, call.receive, call.count, call.type, call.op, call.root);
}
void reduce_scatter(const Call& call) {
  call.communicator.reduce_scatter(call.send, call.receive, call.count, call.type, call.op);
}
void broadcast(const Call& call) {
  call.communicator.broadcast(call.send, call.receive, call.count, call.type, call.root);
}
void all_gather(const Call& call) {
  call.communicator.all_gather(call.send, call.receive, call.count, call.type);
}

/// The engine's is never in place; sends and receives stand in for it there, to and from one buffer.
void all_to_all(const Call& call) {
  if (call.send != call.receive) {
    call.communicator.all_to_all(call.send, call.receive, call.count, call.type);
    return;
  }
  api::group([&] {
    for (int peer = 0; peer < call.ranks; ++peer) {
      if (peer == call.rank) continue;
      std::byte* part = call.receive + static_cast<std::size_t>(peer) * part_bytes(call);
      send_part(call, part, peer);
      receive_part(call, part, peer);
    }
  });
}

void send_to_the_next(const Call& call) {
  api::group([&] {
    send_part(call, call.send, (call.rank + 1) % call.ranks);
    receive_part(call, call.receive, (call.rank + call.ranks - 1) % call.ranks);
  });
}

/// In place the root's own part is where it belongs.
void gather(const Call& call) {
  api::group([&] {
    std::byte* own = call.receive + static_cast<std::size_t>(call.root) * part_bytes(call);
    const bool there = call.rank == call.root && call.send == own;
    if (!there) send_part(call, call.send, call.root);
    if (call.rank != call.root) return;
    for (int peer = 0; peer < call.ranks; ++peer) {
      if (peer == call.root && there) continue;
      receive_part(call, call.receive + static_cast<std::size_t>(peer) * part_bytes(call), peer);
    }
  });
}

void scatter(const Call& call) {
  api::group([&] {
    const std::byte* own = call.send + static_cast<std::size_t>(call.root) * part_bytes(call);
    const bool there = call.rank == call.root && call.receive == own;
    if (call.rank == call.root) {
      for (int peer = 0; peer < call.ranks; ++peer) {
        if (peer == call.root && there) continue;
        send_part(call, call.send + static_cast<std::size_t>(peer) * part_bytes(call), peer);
      }
    }
    if (!there) receive_part(call, call.receive, call.root);
  });
}

/// An all-gather: in each step a rank exchanges all that it has with the one across one more dimension.
void hypercube(const Call& call) {
  const std::size_t part = part_bytes(call);
  std::byte* own = call.receive + static_cast<std::size_t>(call.rank) * part;
  if (own != call.send && part > 0) std::memcpy(own, call.send, part);
  for (int dimension = 1; dimension < call.ranks; dimension *= 2) {
    const int first = call.rank & ~(dimension - 1);
    const int peer = call.rank ^ dimension;
    const std::size_t count = call.count * static_cast<std::size_t>(dimension);
    api::group([&] {
      call.communicator.send(call.receive + static_cast<std::size_t>(first) * part, count, call.type, peer);
      call.communicator.receive(call.receive + static_cast<std::size_t>(first ^ dimension) * part, count,
                                call.type, peer);
    });
  }
}

constexpr Collective kCollectives[] = {
    {.name = "all_reduce",
     .layout = Layout::kWhole,
     .origin = reduced,
     .run = all_reduce,
     .bus_factor = twice_others,
     .reduces = true},
    {.name = "all_gather",
     .layout = Layout::kJoins,
     .origin = joined,
     .run = all_gather,
     .bus_factor = others},
    {.name = "reduce_scatter",
     .layout = Layout::kDivides,
     .origin = reduced_part,
     .run = reduce_scatter,
     .bus_factor = others,
     .reduces = true},
    {.name = "broadcast", .layout = Layout::kWhole, .origin = from_root, .run = broadcast, .rooted = true},
    {.name = "reduce",
     .layout = Layout::kWhole,
     .origin = reduced_on_root,
     .run = reduce,
     .reduces = true,
     .rooted = true},
    {.name = "alltoall",
     .layout = Layout::kExchanges,
     .origin = exchanged,
     .run = all_to_all,
     .bus_factor = others,
     .in_place = false},
    {.name = "sendrecv",
     .layout = Layout::kWhole,
     .origin = from_the_rank_before,
     .run = send_to_the_next,
     .in_place = false,
     .point_to_point = true},
    {.name = "gather",
     .layout = Layout::kJoins,
     .origin = joined_on_root,
     .run = gather,
     .bus_factor = others,
     .rooted = true,
     .point_to_point = true},
    {.name = "scatter",
     .layout = Layout::kDivides,
     .origin = part_of_root,
     .run = scatter,
     .bus_factor = others,
     .rooted = true,
     .point_to_point = true},
    {.name = "hypercube",
     .layout = Layout::kJoins,
     .origin = joined,
     .run = hypercube,
     .algorithm_factor = others,
     .point_to_point = true,
     .in_steps = true,
     .power_of_two = true},
};

}  // namespace

Shape shape_of(Layout layout, std::size_t bytes, std::size_t element, int ranks) noexcept {
  const std::size_t whole = bytes / element;
  if (layout == Layout::kWhole) return {whole, whole, whole, 0, 0};
  const std::size_t part = whole / static_cast<std::size_t>(ranks) / (16 / element) * (16 / element);
  const std::size_t all = part * static_cast<std::size_t>(ranks);
  if (layout == Layout::kJoins) return {part, part, all, part, 0};
  if (layout == Layout::kDivides) return {part, all, part, 0, part};
  return {part, all, all, 0, 0};
}

std::span<const Collective> all_collectives() noexcept {
  return kCollectives;
}

const Collective* find_collective(std::string_view name) noexcept {
  for (const Collective& one : kCollectives) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace tombolo::bench
