// The ten collectives of nccl-tests, as calls of the public interface.
#include <cstring>

#include "bench/perf/collective.h"

namespace tombolo::bench {
namespace {

// ---- Bandwidth factors

/// The share of the data that other ranks have.
double others(int ranks) {
  return static_cast<double>(ranks - 1) / ranks;
}
/// The factor of reducing and distributing, which both move that share.
double twice_others(int ranks) {
  return 2 * others(ranks);
}

// ---- Expected results

Origin reduced(const RankContext&, std::size_t index) {
  return {Origin::kReduced, index};
}
Origin reduced_on_root(const RankContext& context, std::size_t index) {
  return {context.rank == context.root ? Origin::kReduced : Origin::kUntouched, index};
}
Origin reduced_part(const RankContext& context, std::size_t index) {
  return {Origin::kReduced, static_cast<std::size_t>(context.rank) * context.count + index};
}
Origin from_root(const RankContext& context, std::size_t index) {
  return {Origin::kCopy, index, context.root};
}
Origin part_of_root(const RankContext& context, std::size_t index) {
  return {Origin::kCopy, static_cast<std::size_t>(context.rank) * context.count + index, context.root};
}
Origin joined(const RankContext& context, std::size_t index) {
  return {Origin::kCopy, index % context.count, static_cast<int>(index / context.count)};
}
Origin joined_on_root(const RankContext& context, std::size_t index) {
  return context.rank == context.root ? joined(context, index) : Origin{Origin::kUntouched};
}
Origin exchanged(const RankContext& context, std::size_t index) {
  return {Origin::kCopy, static_cast<std::size_t>(context.rank) * context.count + index % context.count,
          static_cast<int>(index / context.count)};
}
Origin from_the_rank_before(const RankContext& context, std::size_t index) {
  return {Origin::kCopy, index, (context.rank + context.ranks - 1) % context.ranks};
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
void gather(const Call& call) {
  call.communicator.gather(call.send, call.receive, call.count, call.type, call.root);
}
void scatter(const Call& call) {
  call.communicator.scatter(call.send, call.receive, call.count, call.type, call.root);
}

/// The engine's all-to-all is never in place. Sends and receives from and to one buffer replace it there.
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

/// An all-gather: in each step a rank exchanges all that it has with its neighbour along one more dimension.
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
     .partitioning = Partitioning::kWhole,
     .origin = reduced,
     .run = all_reduce,
     .bus_factor = twice_others,
     .reduces = true},
    {.name = "all_gather",
     .partitioning = Partitioning::kJoins,
     .origin = joined,
     .run = all_gather,
     .bus_factor = others},
    {.name = "reduce_scatter",
     .partitioning = Partitioning::kDivides,
     .origin = reduced_part,
     .run = reduce_scatter,
     .bus_factor = others,
     .reduces = true},
    {.name = "broadcast",
     .partitioning = Partitioning::kWhole,
     .origin = from_root,
     .run = broadcast,
     .rooted = true},
    {.name = "reduce",
     .partitioning = Partitioning::kWhole,
     .origin = reduced_on_root,
     .run = reduce,
     .reduces = true,
     .rooted = true},
    {.name = "alltoall",
     .partitioning = Partitioning::kExchanges,
     .origin = exchanged,
     .run = all_to_all,
     .bus_factor = others,
     .in_place = false},
    {.name = "sendrecv",
     .partitioning = Partitioning::kWhole,
     .origin = from_the_rank_before,
     .run = send_to_the_next,
     .in_place = false,
     .point_to_point = true},
    {.name = "gather",
     .partitioning = Partitioning::kJoins,
     .origin = joined_on_root,
     .run = gather,
     .bus_factor = others,
     .rooted = true},
    {.name = "scatter",
     .partitioning = Partitioning::kDivides,
     .origin = part_of_root,
     .run = scatter,
     .bus_factor = others,
     .rooted = true},
    {.name = "hypercube",
     .partitioning = Partitioning::kJoins,
     .origin = joined,
     .run = hypercube,
     .algorithm_factor = others,
     .point_to_point = true,
     .in_steps = true,
     .power_of_two = true},
};

}  // namespace

Shape shape_of(Partitioning partitioning, std::size_t bytes, std::size_t element, int ranks) noexcept {
  const std::size_t whole = bytes / element;
  if (partitioning == Partitioning::kWhole) return {whole, whole, whole, 0, 0};
  const std::size_t part = whole / static_cast<std::size_t>(ranks) / (16 / element) * (16 / element);
  const std::size_t all = part * static_cast<std::size_t>(ranks);
  if (partitioning == Partitioning::kJoins) return {part, part, all, part, 0};
  if (partitioning == Partitioning::kDivides) return {part, all, part, 0, part};
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
