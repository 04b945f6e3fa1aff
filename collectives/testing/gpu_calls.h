// Random calls for tests of calls on GPU memory, with their buffers in any memory.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "collectives/testing/on_gpu.h"

namespace tombolo::collectives::test {

/// A call that all ranks make alike, with what differs between them.
struct Plan {
  CollectiveCall call;
  bool in_place = false;
  Bytes send, residual;
  std::size_t send_bytes = 0, receive_bytes = 0;  ///< of the buffers; in place only the larger one exists
  std::size_t own = 0;                            ///< where the own part is in the buffer of all, in bytes
  bool receive_is_part = false;                   ///< in place: of the send buffer
};

/// Counts and offsets with gaps between the parts, in another order than the ranks'.
inline std::shared_ptr<const Parts> gapped(std::mt19937_64& random, std::vector<std::size_t> counts) {
  Parts parts{counts, std::vector<std::size_t>(counts.size())};
  std::vector<std::size_t> order(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random);
  std::size_t at = random() % 3;
  for (const std::size_t rank : order) {
    parts.offsets[rank] = at;
    at += counts[rank] + random() % 3;
  }
  return std::make_shared<const Parts>(std::move(parts));
}

inline std::size_t extent(const Parts& parts) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < parts.counts.size(); ++i)
    if (parts.counts[i] > 0) end = std::max(end, parts.offsets[i] + parts.counts[i]);
  return end;
}

/// The same on every rank but for the data. `largest`: elements of a part.
inline Plan draw(std::mt19937_64& common, std::mt19937_64& own, int rank, int ranks, std::size_t largest) {
  Plan plan;
  CollectiveCall& call = plan.call;
  call.collective = kAllCollectives[common() % std::size(kAllCollectives)];
  call.type = kAllTypes[common() % std::size(kAllTypes)];
  call.op = kAllOps[common() % std::size(kAllOps)];
  call.root = static_cast<int>(common() % static_cast<unsigned>(ranks));
  const bool is_root = rank == call.root;
  const std::size_t element = size_of(call.type);
  const auto count = [&] { return common() % 4 == 0 ? common() % largest : common() % 20; };
  call.count = count();
  const bool parted = call.collective == Collective::kReduceScatter ||
                      call.collective == Collective::kAllGather || call.collective == Collective::kGather ||
                      call.collective == Collective::kScatter || call.collective == Collective::kAllToAll;
  plan.in_place = call.collective != Collective::kAllToAll && common() % 2 == 0;
  const auto all = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank);
  std::size_t whole = call.count * all, sent_whole = whole;
  plan.own = call.count * me * element;
  if (parted && common() % 2 == 0) {
    call.uneven = true;
    std::vector<std::size_t> counts(all), row(all), column(all);
    for (auto& one : counts) one = count();
    if (call.collective == Collective::kAllToAll) {
      std::vector<std::size_t> from_to(all * all);
      for (auto& one : from_to) one = count();
      for (std::size_t peer = 0; peer < all; ++peer) {
        row[peer] = from_to[me * all + peer];
        column[peer] = from_to[peer * all + me];
      }
      call.sent_parts = gapped(own, row);
      call.parts = gapped(own, column);
      sent_whole = extent(*call.sent_parts);
    } else {
      const auto parts = gapped(common, counts);
      call.count = counts[me];
      plan.own = parts->offsets[me] * element;
      const bool rooted = is_rooted(call.collective);
      if (!rooted || is_root) call.parts = parts;
    }
    if (call.parts) whole = extent(*call.parts);
    if (call.collective != Collective::kAllToAll) sent_whole = whole;
  }
  const std::size_t part = call.count * element;
  plan.send_bytes = plan.receive_bytes = part;
  switch (call.collective) {
    case Collective::kReduceScatter:
      plan.send_bytes = sent_whole * element;
      plan.receive_is_part = true;
      break;
    case Collective::kAllGather:
      plan.receive_bytes = whole * element;
      break;
    case Collective::kGather:
      if (is_root) plan.receive_bytes = whole * element;
      if (!is_root) plan.receive_bytes = 0;
      plan.in_place &= is_root;
      break;
    case Collective::kScatter:
      plan.send_bytes = is_root ? sent_whole * element : 0;
      plan.in_place &= is_root;
      plan.receive_is_part = is_root;
      break;
    case Collective::kAllToAll:
      plan.send_bytes = sent_whole * element;
      plan.receive_bytes = whole * element;
      break;
    case Collective::kReduce:
      if (!is_root) plan.receive_bytes = 0;
      plan.in_place &= is_root;
      break;
    case Collective::kBroadcast:
    case Collective::kAllReduce:
    case Collective::kBarrier:
      break;
  }
  if (is_reduction(call.collective) && call.op == ReduceOp::kSum && own() % 3 == 0) {
    std::byte factor[8];
    put(factor, call.type, 2);
    call.factor = Factor::at(factor, call.type);
  }
  plan.send.resize(plan.send_bytes);
  for (std::size_t at = 0; at < plan.send_bytes; at += element)
    put(plan.send.data() + at, call.type, static_cast<double>(own() % 7));
  return plan;
}

/// Where the buffers of a call are, and what they held after it.
struct Made {
  std::unique_ptr<Buffer> send, receive;
  CollectiveCall call;
  const Plan* plan = nullptr;

  Made(const Plan& of, bool send_on_gpu, bool receive_on_gpu, int gpu, MemoryOf memory)
      : call(of.call), plan(&of) {
    if (!of.in_place) {
      send = std::make_unique<Buffer>(of.send_bytes, send_on_gpu, gpu, memory);
      receive = std::make_unique<Buffer>(of.receive_bytes, receive_on_gpu, gpu, memory);
      send->write(of.send);
      call.send = send->data();
      call.receive = receive->data();
      return;
    }
    receive =
        std::make_unique<Buffer>(std::max(of.send_bytes, of.receive_bytes), receive_on_gpu, gpu, memory);
    std::byte* const at = receive->data();
    const bool whole_is_received =
        call.collective == Collective::kAllGather || call.collective == Collective::kGather;
    call.send = whole_is_received ? at + of.own : at;
    call.receive = of.receive_is_part ? at + of.own : at;
    Bytes bytes = receive->read();
    std::ranges::copy(of.send, bytes.begin() + (whole_is_received ? static_cast<std::ptrdiff_t>(of.own) : 0));
    receive->write(bytes);
  }
  /// What the call was to write, and what was between.
  Bytes received() const {
    Bytes all = receive->read();
    if (!plan->in_place || !plan->receive_is_part) return all;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(plan->own);
    return {begin, begin + static_cast<std::ptrdiff_t>(plan->receive_bytes)};
  }
};

/// Random calls give the same bytes as on host memory, whichever ranks' buffers are where.
inline void compare(std::string_view clusters, bool one_host, unsigned seed, int calls, std::size_t largest,
                    const Change& change = {}) {
  const int ranks = static_cast<int>(clusters.size());
  expect_fine(run_ranks(
      clusters,
      [&](Communicator& communicator) {
        std::mt19937_64 common(seed), own(seed * 31 + static_cast<unsigned>(communicator.rank()));
        for (int i = 0; i < calls; ++i) {
          const Plan plan = draw(common, own, communicator.rank(), ranks, largest);
          Made on_host(plan, false, false, 0, MemoryOf::kNoContext);
          communicator.run(on_host.call);
          const bool send_on_gpu = own() % 4 > 0, receive_on_gpu = own() % 4 > 0;
          const MemoryOf memory = own() % 2 == 0 ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext;
          Made made(plan, send_on_gpu, receive_on_gpu, communicator.rank() % 2, memory);
          if (common() % 2 == 0) {
            communicator.run(made.call);
          } else {
            communicator.wait(communicator.start(made.call));
          }
          ASSERT_TRUE(made.received() == on_host.received())
              << collective_name(plan.call.collective) << " #" << i << " of " << plan.call.count << " "
              << data_type_name(plan.call.type) << " on rank " << communicator.rank() << " of " << clusters
              << (plan.in_place ? " in place" : "") << (plan.call.uneven ? " uneven" : "");
        }
        cuda().check_thread();
      },
      [&](Options& options) {
        if (one_host) options.router.host.name = "host";
        if (change) change(options);
      }));
}

}  // namespace tombolo::collectives::test
