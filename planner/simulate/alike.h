// Which replicas of a step, and which of its transfers, take place at the same times as others, so that one
// of them can be simulated for all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "planner/simulate/fluid.h"

namespace tombolo::planner {

/// A 64-bit number that stands for what two things must have in common to be alike. That two that differ have
/// the same happens with chances of 2^-64.
class Colour {
 public:
  Colour& add(std::uint64_t number) noexcept;
  /// Numbers that differ in their last bits, as sums in another order do, are equal.
  Colour& add(double number) noexcept;
  Colour& add(int number) noexcept { return add(static_cast<std::uint64_t>(number)); }
  std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 14695981039346656037U;
};

/// A part of a transfer, for all parts that are alike: its uses count those on one of the resources that are
/// alike.
struct AlikePart {
  double share = 1;  ///< of the transfer's work
  double limit = 0;  ///< of its rate
  std::vector<FluidEngine::Use> uses;
};

/// The longest latency of the pairs of hosts of one cluster between which something is sent, and of all.
struct Latencies {
  double in_clusters = 0, all = 0;

  void raise(const Latencies& other) noexcept {
    in_clusters = std::max(in_clusters, other.in_clusters);
    all = std::max(all, other.all);
  }
};

/// A transfer for all that are alike.
struct AlikeTransfer {
  std::vector<AlikePart> parts;  ///< one for each class of parts
  Latencies latencies;           ///< the longest of all that are alike
};

/// Divides replicas, transfers and resources into the coarsest classes such that
///  * replicas of a class are alike in themselves, and have transfers of the same classes,
///  * transfers of a class have the same role, the same class of replica, and parts over resources of the
///    same classes,
///  * each resource of a class has the same capacity, and carries as many parts of each class as the others.
/// Whatever order the max-min fair engine runs activities in, all of a class then begin and end together:
/// they do at the beginning, and what changes later changes for all of them alike. The classes are found by
/// refining colours until none of them splits any more.
///
/// Token buckets break this, since the first of several equal transfers empties them; the caller must not
/// have any. Not thread-safe.
class AlikeTransfers {
 public:
  using Resource = FluidEngine::Resource;

  /// The next replica.
  void add_replica(const Colour& itself) { replicas_.push_back(itself.value()); }
  /// Members of a team wait for each other, and are alike only where all members of two teams are, in order.
  void add_team(std::vector<int> replicas) { teams_.push_back(std::move(replicas)); }
  /// Adds a transfer which begins at a time that follows from what one replica does; `replica` -1: from what
  /// all do. Returns its number. add_part() and add_latencies() add to the latest.
  int add_transfer(const Colour& role, int replica);
  void add_part(double share, double limit, std::span<const Resource> resources);
  void add_latencies(const Latencies& latencies) { transfers_.back().latencies.raise(latencies); }

  /// Finds the classes. False where no two replicas are alike.
  bool find(const FluidEngine& engine);

  /// How many replicas the first of each class stands for, by replica; 0 for the others.
  const std::vector<int>& copies() const noexcept { return copies_; }
  /// Whether a transfer is the first of its class.
  bool is_first(int transfer) const { return class_of(transfer).first == transfer; }
  /// What stands for all transfers of the class of this one.
  const AlikeTransfer& for_all(int transfer);

 private:
  struct Transfer {
    std::uint64_t colour = 0;
    int replica = -1;
    std::size_t first_part = 0;
    Latencies latencies;
  };
  /// Transfers that are alike.
  struct Class {
    int first = 0;
    Latencies latencies;
  };
  struct Part {
    std::uint64_t colour = 0;
    double share = 1, limit = 0;
    std::size_t first_use = 0;
  };

  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  const Class& class_of(int transfer) const { return classes_.at(transfers_[index(transfer)].colour); }
  std::span<const Resource> resources_of(std::size_t part) const;
  std::span<Part> parts_of(std::size_t transfer);
  void refine();
  std::size_t colours();
  void count();

  std::vector<std::uint64_t> replicas_;
  std::vector<std::vector<int>> teams_;
  std::vector<Transfer> transfers_;
  std::vector<Part> parts_;
  std::vector<Resource> uses_;
  std::vector<std::uint64_t> resources_;  // by resource
  std::vector<std::uint64_t> sums_;       // while colours are refined
  std::vector<std::uint64_t> table_;      // while they are counted
  std::vector<int> copies_;
  std::unordered_map<std::uint64_t, Class> classes_;  // by colour of transfers
  std::vector<Resource> standing_;                    // by resource: the first of its class
  std::unordered_map<std::uint64_t, int> counts_;     // by part's colour and resource
  std::unordered_map<int, AlikeTransfer> merged_;     // by transfer
};

}  // namespace tombolo::planner
