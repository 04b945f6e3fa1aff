// What a TCP connection chooses by the figures of its paths: how many streams each has, the pace of each
// stream, and how acknowledgements are treated. Decides from what the owner measured; asks no socket. Used by
// one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "transport/tcp/path/congestion.h"
#include "transport/tcp/path/pacing.h"
#include "transport/tcp/path/path_control.h"

namespace tombolo::transport::tcp {

/// What follows from the length of a connection's path.
struct PathTreatment {
  /// Whether the kernel is asked to acknowledge in pairs, as it pays on a short path only.
  bool acks_in_pairs = false;
  /// Bytes for copies of messages, so that their requests need not wait for an acknowledgement, which on a
  /// long path takes a round trip. 0: only small messages are copied.
  std::size_t copies = 0;
};
/// The round trip, the rate that the NICs promise (0: unknown), and the most bytes that copies may take.
PathTreatment treatment_of(Duration round_trip, double bytes_per_second, std::size_t most_copies) noexcept;

/// Counts of one stream's socket since it was made, as its kernel reports them.
struct TcpCounters {
  std::uint64_t bytes = 0;               ///< acknowledged by the peer's kernel
  std::uint64_t busy_us = 0;             ///< with something under way
  std::uint64_t held_us = 0;             ///< of these, held back for want of window or buffer
  std::uint64_t sent = 0, repeated = 0;  ///< segments, and those sent again
  Duration round_trip{}, shortest{};     ///< now (smoothed), and the shortest so far
};

class PathTuner {
 public:
  /// Begins a look at all streams; those of each path (a pair of NICs) follow, then more_streams().
  void begin_look(std::size_t paths, TimePoint now);
  /// A stream that belongs to the path is not there.
  void note_missing(std::size_t path) noexcept { ++looks_[path].missing; }
  /// A stream goes over the path; its counters are nothing where they could not be read.
  void note_stream(std::size_t path, std::size_t stream, const std::optional<TcpCounters>& now);
  /// How many streams the path should get more, at most `room`. `bytes_per_second`: that its NICs promise.
  std::size_t more_streams(std::size_t path, double bytes_per_second, std::size_t room) noexcept;
  /// Streams that were there in this look.
  std::size_t streams(std::size_t path) const noexcept { return looks_[path].streams; }

  /// What Congestion remembers of the stream's socket.
  Congestion::Watch& losses(std::size_t stream) { return of(stream).losses; }

  /// Divides the NIC's rate among its streams: the pace that this stream should get now, where it has
  /// another.
  std::optional<std::uint64_t> new_pace(std::size_t stream, const std::shared_ptr<NicPacing>& nic);
  /// The kernel has taken that pace.
  void paced(std::size_t stream, std::uint64_t bytes_per_second) { of(stream).pace = bytes_per_second; }

  /// The stream has lost its socket, so what was known of it counts no more.
  void lost(std::size_t stream) { of(stream) = {}; }

 private:
  struct Stream {
    TcpCounters last;
    Congestion::Watch losses;
    std::unique_ptr<PacedStream> paced;
    std::uint64_t pace = 0;  // bytes per second; 0 = as fast as it will
  };
  Stream& of(std::size_t stream) {
    if (stream >= streams_.size()) streams_.resize(stream + 1);
    return streams_[stream];
  }

  std::vector<Stream> streams_;
  std::vector<PathControl> controls_;  // by path
  std::vector<PathLook> looks_;        // the present look, by path
  TimePoint last_look_{};
};

}  // namespace tombolo::transport::tcp
