// Why a rank gave up, as it tells the others through the store.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace tombolo::collectives {

/// Only the first note that is left on a communicator counts.
struct AbortNote {
  static constexpr std::size_t kLongestText = 4096;  ///< more is cut off, on both sides

  int rank = 0;
  Cause cause = Cause::kAborted;
  std::string text;

  std::vector<std::byte> encode() const;
  /// Decodes bytes from the store, which may be anything: bytes that are no note give one with default
  /// values.
  static AbortNote decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::collectives
