#include "collectives/engine/used_buffers.h"

#include <algorithm>
#include <utility>

namespace tombolo::collectives {
namespace {

using Ranges = std::vector<gpu::Range>;

Ranges first(std::size_t bytes) {
  if (bytes == 0) return {};
  return {{0, bytes}};
}

/// Those of a buffer that holds all ranks' parts. Those that adjoin each other are one.
Ranges of_parts(const Parts& parts, std::size_t element_bytes) {
  Ranges ranges;
  for (std::size_t rank = 0; rank < parts.counts.size(); ++rank)
    if (parts.counts[rank] > 0)
      ranges.push_back({parts.offsets[rank] * element_bytes, parts.counts[rank] * element_bytes});
  std::ranges::sort(ranges, {}, &gpu::Range::offset);
  Ranges joined;
  for (const gpu::Range& range : ranges) {
    if (!joined.empty() && range.offset <= joined.back().offset + joined.back().bytes) {
      gpu::Range& before = joined.back();
      before.bytes = std::max(before.bytes, range.offset + range.bytes - before.offset);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

std::vector<gpu::Buffer> used_buffers(const CollectiveCall& call, int rank, int ranks) {
  const std::size_t element = size_of(call.type);
  const bool is_root = rank == call.root;
  const Ranges own = first(call.count * element);
  const auto all = [&](const std::shared_ptr<const Parts>& parts) {
    return call.uneven ? of_parts(*parts, element)
                       : first(call.count * element * static_cast<std::size_t>(ranks));
  };
  gpu::Buffer send{"send", static_cast<std::byte*>(const_cast<void*>(call.send)), {}, {}};
  gpu::Buffer receive{"receive", static_cast<std::byte*>(call.receive), {}, {}};
  switch (call.collective) {
    case Collective::kAllReduce:
      send.read = receive.written = own;
      break;
    case Collective::kReduceScatter:
      send.read = all(call.parts);
      receive.written = own;
      break;
    case Collective::kAllGather:
      send.read = own;
      receive.written = all(call.parts);
      break;
    case Collective::kBroadcast:
      if (is_root) send.read = own;
      if (!is_root || call.send != call.receive) receive.written = own;
      break;
    case Collective::kReduce:
      send.read = own;
      if (is_root) receive.written = own;
      break;
    case Collective::kGather:
      send.read = own;
      if (is_root) receive.written = all(call.parts);
      break;
    case Collective::kScatter:
      if (is_root) send.read = all(call.parts);
      receive.written = own;
      break;
    case Collective::kAllToAll:
      send.read = all(call.sent_parts);
      receive.written = all(call.parts);
      break;
    case Collective::kBarrier:
      return {};
  }
  std::vector<gpu::Buffer> used;
  if (send.used()) used.push_back(std::move(send));
  if (receive.used()) used.push_back(std::move(receive));
  if (call.residual != nullptr && call.count > 0)
    used.push_back({"residual", reinterpret_cast<std::byte*>(call.residual), own, own});
  return used;
}

}  // namespace tombolo::collectives
