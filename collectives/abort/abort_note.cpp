#include "collectives/abort/abort_note.h"

#include <charconv>

namespace tombolo::collectives {

std::vector<std::byte> AbortNote::encode() const {
  const std::string all =
      fmt::format("{} {} {}", rank, static_cast<int>(cause), std::string_view(text).substr(0, kLongestText));
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

AbortNote AbortNote::decode(std::span<const std::byte> bytes) {
  const char* at = reinterpret_cast<const char*>(bytes.data());
  const char* const end = at + bytes.size();
  int rank = 0, cause = 0;
  for (int* const number : {&rank, &cause}) {
    const auto read = std::from_chars(at, end, *number);
    if (read.ec != std::errc{} || read.ptr == end || *read.ptr != ' ') return {};
    at = read.ptr + 1;
  }
  AbortNote note;
  note.rank = rank;
  if (cause >= 0 && cause <= static_cast<int>(Cause::kInternal)) note.cause = static_cast<Cause>(cause);
  note.text = std::string(at, end).substr(0, kLongestText);
  return note;
}

}  // namespace tombolo::collectives
