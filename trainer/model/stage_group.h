// Gradients summed over ranks by their devices, in the devices' memory. The interface; what carries it out is
// a back end's.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/clock.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

/// What lets ranks find each other in a group: one of them makes it, and hands it to the others.
struct GroupId {
  std::array<char, 128> bytes{};
  bool operator==(const GroupId&) const = default;
};

/// A rank's place in a group, and how long it waits for the others.
struct GroupMember {
  int rank = 0, size = 1;
  Duration deadline = std::chrono::seconds(60);  ///< for joining, and for each sum that follows another
};

/// Ranks that hold the same parameters. Used by one thread at a time, except abort(). All ranks of a group
/// make the same calls in the same order. A failure names operation, rank and cause, and leaves the group
/// unusable.
class StageGroup {
 public:
  /// Where sums are under way, or have failed, they are given up.
  virtual ~StageGroup() = default;
  /// Puts the sum over the ranks in the place of these gradients, which backward has announced, once the
  /// device has made them final. Returns before that. Until wait() nothing else may use them.
  virtual void sum(const Bucket& range) = 0;
  /// Returns when all sums are done. What the stage does with its gradients from now on comes after them.
  virtual void wait() = 0;
  /// Makes calls under way and later ones fail with kAborted. Any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace tombolo::trainer
