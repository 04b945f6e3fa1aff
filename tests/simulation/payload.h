// What simulated messages hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace tombolo::simulation {

/// What receive buffers hold before anything is written, and all buffers once they are their owner's again.
inline constexpr std::byte kUnwritten{0xee}, kOwn{0x5a};

/// Bytes that look random; message i of a direction begins somewhere else than the others.
class Payload {
 public:
  static constexpr std::size_t kLongest = 512 * 1024;
  Payload() {
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i + 8 <= bytes_.size(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(bytes_.data() + i, &word, 8);
    }
  }
  std::span<const std::byte> of(unsigned from, std::size_t index, std::size_t size) const {
    return std::span(bytes_).subspan((index * 7919 + from * 104729) % (bytes_.size() - kLongest), size);
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(2 * kLongest);
};

inline const Payload& payload() {
  static const Payload one;
  return one;
}

}  // namespace tombolo::simulation
