// What the cluster file says about a communicator that spans clusters. The folder tuner/ owns the choice of
// NCCL's algorithm and protocol for such communicators.
//
// All ranks of a communicator must choose alike, or the job hangs. A tuner knows neither its own rank nor the
// others', so everything in this folder is a function of the file's bytes and of NCCL's arguments, which are
// the same on all ranks. It calculates with + - * / and comparisons alone, which every processor rounds
// alike; functions of libm are implemented once per processor model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tombolo::net_plugin {

/// TOMBOLO_TUNER.
enum class TunerMode : std::uint8_t {
  kAuto,      ///< communicators that must span clusters are tuned
  kOff,       ///< none is
  kSpanning,  ///< the user says that all communicators of two nodes or more span clusters
};

/// What one host attains towards another, one direction.
struct HostLink {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// Where a communicator spans clusters, and over what.
struct Span {
  std::vector<int> hosts;  ///< of each cluster, in the file's order
  HostLink inside;         ///< the slowest between two hosts of a cluster; 0 bytes per second = unknown
  HostLink between;        ///< the slowest between hosts of two clusters
  /// What all hosts of one cluster attain together towards another; 0 = no limit is known.
  double shared_bytes_per_second = 0;
  int nics = 1;  ///< by which every host reaches other clusters, at least
};

/// What is known of one communicator.
struct Knowledge {
  std::optional<Span> span;  ///< nothing: the communicator is left to NCCL
  std::string reason;        ///< why it spans clusters, or why nothing is known; for the log
};

/// The cluster file as the tuner got it, and what follows from it for every communicator that spans clusters.
struct TunerFile {
  std::string path;
  std::uint64_t content_hash = 0;  ///< of its bytes; ranks with different files show different ones
  std::vector<std::string> clusters;
  Span span;
  std::string lacking;  ///< the rate between clusters that the file does not say; empty where it says all

  /// Builds that choose by other rules give other numbers for the same bytes.
  static std::uint64_t hash_of(std::string_view bytes) noexcept;
  /// Throws as ClusterFile::parse() does.
  static TunerFile parse(std::string path, std::string_view bytes);
  /// The same of what TOMBOLO_TUNER_LINK says in a line: "hosts=2+4 rate=10gbit rtt=20ms", and possibly
  /// "shared=25gbit" and "nics=2". `name` stands for the path. Throws kInvalidUsage naming what is wrong.
  static TunerFile parse_link(std::string name, std::string_view text);
};

/// `file` may be null. In mode kAuto a communicator is known to span clusters only if it has more nodes than
/// the largest cluster has hosts. One that has more nodes than the file has hosts is not that file's.
Knowledge knowledge_of(TunerMode mode, const TunerFile* file, std::size_t nodes);

}  // namespace tombolo::net_plugin
