#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tombolo {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bit-reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t by_table(std::uint32_t state, const std::byte* data, std::size_t size) noexcept {
  for (std::size_t i = 0; i < size; ++i)
    state = (state >> 8) ^ kTable[(state ^ static_cast<std::uint32_t>(data[i])) & 0xff];
  return state;
}

#if defined(__x86_64__)
// The instruction has a latency of three cycles and a throughput of one, so three independent runs over parts
// of one block keep it busy. To join two runs, the state of the first is advanced over as many zeros as the
// second has bytes. That is linear in the state, so one table per byte of the state is enough.
constexpr std::size_t kRun = 4096;

constexpr std::uint32_t over_zeros(std::uint32_t state, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) state = (state >> 8) ^ kTable[state & 0xff];
  return state;
}

using JoinTable = std::array<std::array<std::uint32_t, 256>, 4>;

JoinTable make_join_table() {
  // The operation is linear, so the images of the state's 32 bits give those of all states.
  std::array<std::uint32_t, 32> of_bit{};
  for (unsigned bit = 0; bit < 32; ++bit) of_bit[bit] = over_zeros(std::uint32_t{1} << bit, kRun);
  JoinTable table{};
  for (unsigned byte = 0; byte < 4; ++byte)
    for (unsigned value = 0; value < 256; ++value)
      for (unsigned bit = 0; bit < 8; ++bit)
        if ((value >> bit & 1) != 0) table[byte][value] ^= of_bit[8 * byte + bit];
  return table;
}

std::uint32_t moved(const JoinTable& table, std::uint32_t state) noexcept {
  return table[0][state & 0xff] ^ table[1][state >> 8 & 0xff] ^ table[2][state >> 16 & 0xff] ^
         table[3][state >> 24];
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t state, const std::byte* data,
                                                               std::size_t size) noexcept {
  static const JoinTable join = make_join_table();
  auto word = [](const std::byte* from) {
    std::uint64_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  while (size >= 3 * kRun) {
    std::uint64_t first = state, second = 0, third = 0;
    for (std::size_t i = 0; i < kRun; i += 8) {
      first = _mm_crc32_u64(first, word(data + i));
      second = _mm_crc32_u64(second, word(data + kRun + i));
      third = _mm_crc32_u64(third, word(data + 2 * kRun + i));
    }
    state = moved(join, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    state = moved(join, state) ^ static_cast<std::uint32_t>(third);
    data += 3 * kRun;
    size -= 3 * kRun;
  }
  std::uint64_t wide = state;
  for (; size >= 8; size -= 8, data += 8) wide = _mm_crc32_u64(wide, word(data));
  state = static_cast<std::uint32_t>(wide);
  for (; size != 0; --size, ++data) state = _mm_crc32_u8(state, static_cast<unsigned char>(*data));
  return state;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> data) noexcept {
  return ~by_table(~0U, data.data(), data.size());
}

std::uint32_t crc32c(std::span<const std::byte> data) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~by_instruction(~0U, data.data(), data.size());
#endif
  return crc32c_by_table(data);
}

}  // namespace tombolo
