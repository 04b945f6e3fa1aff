#include "trainer/cuda/testing/pretended_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr std::size_t kPretendedAlignment = 256;

}  // namespace

bool is_poison(const void* at, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(at);
  return std::all_of(begin, begin + bytes,
                     [](std::byte one) { return one == static_cast<std::byte>(kPoison); });
}

std::byte* PretendedMemory::allocate(std::size_t bytes, std::string_view what, bool host) {
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + kPretendedAlignment - 1) / kPretendedAlignment * kPretendedAlignment;
  Allocation allocation;
  allocation.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPretendedAlignment, rounded)));
  if (!allocation.memory) fail(Cause::kSystem, "no memory for {}: {} bytes", what, bytes);
  std::byte* const begin = allocation.memory.get();
  std::memset(begin, kPoison, rounded);
  allocation.end = as_number(begin) + bytes;
  allocation.what = what;
  allocation.host = host;
  if (bytes > 0) {
    Segment whole;
    whole.end = allocation.end;
    whole.written = host;  // what the host writes is not seen
    segments_.emplace(as_number(begin), whole);
  }
  allocations_.emplace(as_number(begin), std::move(allocation));
  return begin;
}

std::string PretendedMemory::place(const void* at) const {
  auto after = allocations_.upper_bound(as_number(at));
  if (after == allocations_.begin()) return fmt::format("{}", at);
  const auto& [begin, allocation] = *std::prev(after);
  return fmt::format("{} (\"{}\" + {})", at, allocation.what, as_number(at) - begin);
}

const PretendedMemory::Allocation& PretendedMemory::allocation_of(std::string_view operation, const void* at,
                                                                  std::size_t bytes) const {
  auto after = allocations_.upper_bound(as_number(at));
  if (after != allocations_.begin()) {
    const auto& allocation = std::prev(after)->second;
    if (as_number(at) + bytes <= allocation.end) return allocation;
  }
  fail(Cause::kInternal, "{}: {} bytes at {} are not inside an allocation", operation, bytes, place(at));
}

template <typename Visit>
void PretendedMemory::for_segments(std::uintptr_t begin, std::uintptr_t end, const Visit& visit) {
  const auto cut = [&](std::uintptr_t where) {
    auto segment = std::prev(segments_.upper_bound(where));
    if (segment->first == where || where >= segment->second.end) return;
    Segment rest = segment->second;
    segment->second.end = where;
    segments_.emplace_hint(std::next(segment), where, rest);
  };
  cut(begin);
  cut(end);
  for (auto segment = segments_.lower_bound(begin); segment != segments_.end() && segment->first < end;
       ++segment)
    visit(segment->first, segment->second);
}

void PretendedMemory::touch(Stream stream, std::string_view name, const Access& access,
                            const VectorClock& clock) {
  const auto own = static_cast<std::size_t>(stream);
  const auto check = [&](const std::array<Touch, kStreams>& before, std::uintptr_t at, std::string_view did,
                         std::string_view does) {
    for (std::size_t other = 0; other < kStreams; ++other)
      if (other != own && before[other].number > clock[other])
        fail(Cause::kInternal,
             "{} on stream \"{}\" {} {}, which {} on stream \"{}\" {}, and no event orders the two", name,
             stream_name(static_cast<int>(own)), does, place(reinterpret_cast<const void*>(at)),
             before[other].name, stream_name(static_cast<int>(other)), did);
  };
  const std::uintptr_t begin = as_number(access.at);
  for_segments(begin, begin + access.bytes, [&](std::uintptr_t at, Segment& segment) {
    if (access.reads && !segment.written)
      fail(Cause::kInternal, "{} on stream \"{}\" reads {}, which nothing has written", name,
           stream_name(static_cast<int>(own)), place(reinterpret_cast<const void*>(at)));
    check(segment.writes, at, "writes", access.writes ? "writes" : "reads");
    if (access.writes) check(segment.reads, at, "reads", "writes");
    if (access.reads) segment.reads[own] = {clock[own], name};
    if (!access.writes) return;
    segment.writes[own] = {clock[own], name};
    segment.written = true;
  });
}

void PretendedMemory::access(Stream stream, const PretendedCommand& command, const VectorClock& clock) {
  const std::vector<Access> all = command.touched();
  for (const Access& access : all) {
    const Allocation& allocation = allocation_of(command.name(), access.at, access.bytes);
    if (allocation.host && command.kind != PretendedCommand::Kind::kCopy)
      fail(Cause::kInternal, "{} on stream \"{}\" takes {}, which is memory of the host", command.name(),
           stream_name(static_cast<int>(stream)), place(access.at));
  }
  // Reads first: what an operation both reads and writes must have been written before it.
  for (const bool writes : {false, true})
    for (const Access& access : all)
      if (access.writes == writes) touch(stream, command.name(), access, clock);
}

void PretendedMemory::host_access(const void* at, std::size_t bytes, bool writes, const VectorClock& clock) {
  allocation_of("the host", at, bytes);
  const auto check = [&](const std::array<Touch, kStreams>& before, std::string_view did) {
    for (std::size_t stream = 0; stream < kStreams; ++stream)
      if (before[stream].number > clock[stream])
        fail(Cause::kInternal,
             "the host {} {}, which {} on stream \"{}\" {}, and the host has not waited for it",
             writes ? "writes" : "reads", place(at), before[stream].name,
             stream_name(static_cast<int>(stream)), did);
  };
  for_segments(as_number(at), as_number(at) + bytes, [&](std::uintptr_t, const Segment& segment) {
    check(segment.writes, "writes");
    if (writes) check(segment.reads, "reads");
  });
}

std::size_t PretendedMemory::allocated() const {
  std::size_t bytes = 0;
  for (const auto& [begin, allocation] : allocations_)
    if (!allocation.host) bytes += allocation.end - begin;
  return bytes;
}

}  // namespace tombolo::trainer::cuda
