// How a large message is divided among queue pairs whose NICs attain different rates: so that all of them end
// together, given what each has still under way.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "transport/rdma/set_up_message.h"

namespace tombolo::transport::rdma {

/// A part of a message, and the queue pair that takes it.
struct Part {
  std::size_t pair = 0;  ///< as in the constructor's list
  std::size_t bytes = 0;
};

using PartList = std::array<Part, kMostQueuePairs>;

/// Used by one thread at a time. Allocates in its constructor alone.
class Shares {
 public:
  /// Smaller parts cost more than a second queue pair or NIC gains.
  static constexpr std::size_t kSmallestPart = 64 * 1024;
  /// Every part but a message's last is a multiple of it, and so of every MTU.
  static constexpr std::size_t kGrain = 4096;

  /// `declared`: bytes per second of each queue pair, at most kMostQueuePairs; 0 where that is not known, and
  /// then all count alike. What completions tell corrects them where `learns`. `depth`: most pieces that a
  /// pair has under way.
  Shares(std::span<const double> declared, std::size_t depth, bool learns);
  Shares() = default;

  /// Divides a message of at least one byte: at most one part for each pair, in the order in which they lie
  /// in the message. They are written into `parts`, of which the result is the first.
  std::span<const Part> divide(std::size_t bytes, PartList& parts) noexcept;

  /// A piece was given to the pair's NIC.
  void posted(std::size_t pair, std::size_t bytes, TimePoint now) noexcept;
  /// The pair's oldest piece is done.
  void done(std::size_t pair) noexcept;
  /// All completions that were there at that time were told to done(). An interval at whose end a pair still
  /// has work, or which was looked at often, says what the pair attains; another says only how much it does
  /// at least.
  void looked(TimePoint now) noexcept;
  /// Whether posted() needs the time.
  bool learns() const noexcept { return learns_; }
  /// Whether looked() has something to learn.
  bool waiting() const noexcept { return learns_ && waiting_; }

  /// What the pair is taken to attain, in bytes per second where anything is known.
  double rate(std::size_t pair) const noexcept { return loads_[pair].declared * efficiency(loads_[pair]); }

 private:
  struct Load {
    double declared = 1;
    double efficiency = 0;            ///< attained per declared; 0: not known yet
    std::vector<std::size_t> pieces;  ///< under way, a ring
    std::size_t first = 0, count = 0;
    std::size_t under_way = 0;  ///< bytes
    TimePoint since{};          ///< `moved` bytes since then
    std::size_t moved = 0;
  };
  double efficiency(const Load& load) const noexcept { return load.efficiency > 0 ? load.efficiency : mean_; }

  std::vector<Load> loads_;
  bool learns_ = false, waiting_ = false;
  double mean_ = 1;  ///< efficiency of those that are known
  std::size_t first_ = 0;
  TimePoint looked_{};
};

}  // namespace tombolo::transport::rdma
