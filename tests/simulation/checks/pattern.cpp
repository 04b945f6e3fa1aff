#include "tests/simulation/checks/pattern.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/simulation/plans/plan.h"

namespace tombolo::simulation {
namespace {

std::vector<std::byte> random_bytes() {
  std::vector<std::byte> bytes(2 * kLongestMessage);
  std::mt19937_64 random(7);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

}  // namespace

std::span<const std::byte> message_bytes(unsigned from, std::size_t index, std::size_t size) {
  static const std::vector<std::byte> bytes = random_bytes();
  return std::span(bytes).subspan((index * 7919 + from * 104729) % (bytes.size() - kLongestMessage), size);
}

bool holds_only(std::byte filling, std::span<const std::byte> buffer) {
  if (buffer.empty()) return true;
  return buffer.front() == filling && std::memcmp(buffer.data(), buffer.data() + 1, buffer.size() - 1) == 0;
}

}  // namespace tombolo::simulation
