// Which pages of slots a rank has touched: whoever is the first to touch a page waits until the system has
// provided it, or mapped it.
#pragma once

#include <bitset>
#include <cstddef>

#include "collectives/host/rank_memory.h"

namespace tombolo::collectives {

/// Of the slots of one rank.
class TouchedPages {
 public:
  /// Takes note that so many bytes are written or read, from byte `begin` of the slots on; whether all of
  /// their pages had been touched before. The bytes lie within the slots.
  bool touch(std::size_t begin, std::size_t bytes) noexcept {
    bool before = true;
    if (bytes == 0) return before;
    for (std::size_t page = begin / kPage, last = (begin + bytes - 1) / kPage; page <= last; ++page) {
      before &= touched_[page];
      touched_[page] = true;
    }
    return before;
  }

 private:
  /// The smallest one of any system; where they are larger, some of their bytes count as untouched once more.
  static constexpr std::size_t kPage = 4096;
  std::bitset<kSlots * kSlotBytes / kPage> touched_;
};

}  // namespace tombolo::collectives
