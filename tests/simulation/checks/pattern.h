// What simulated messages hold.
#pragma once

#include <cstddef>
#include <span>

namespace tombolo::simulation {

/// Bytes that look random; message `index` from a host begins somewhere else than the others. `size` is at
/// most kLongestMessage. Valid for ever.
std::span<const std::byte> message_bytes(unsigned from, std::size_t index, std::size_t size);

/// What a receive's buffer holds before anything comes.
inline constexpr std::byte kUntouched{0xee};
/// What an owner writes into a buffer whose request is over.
inline constexpr std::byte kOver{0x5a};

/// Whether nothing but `filling` is in `buffer`. Compares a buffer with itself, one byte further on: a loop
/// over bytes took a sixth of a schedule's time.
bool holds_only(std::byte filling, std::span<const std::byte> buffer);

}  // namespace tombolo::simulation
