// The meters of all connections of a process. This folder owns what is counted and traced of connections
// (meter.h, tracer.h, traced.h); report/ makes it readable from outside.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "transport/observe/meter.h"

namespace tombolo::transport {

/// The key under which counts of several connections, living and closed, are summed up.
struct TotalsKey {
  std::string transport, local_nic, peer_nic;
  std::string peer;  ///< its host, or where that is not known its address
  bool operator<(const TotalsKey& other) const {
    return std::tie(transport, local_nic, peer_nic, peer) <
           std::tie(other.transport, other.local_nic, other.peer_nic, other.peer);
  }
};

/// The sums under one key. They never decrease, except for those marked "now".
struct Totals {
  // These are summed by the NICs that a connection was routed over.
  std::uint64_t connections = 0;  ///< opened so far
  std::uint64_t live = 0;         ///< now
  std::uint64_t sent_bytes = 0, received_bytes = 0, sent_messages = 0, received_messages = 0;
  std::uint64_t send_stalls = 0, receive_stalls = 0;
  std::uint64_t send_stalled_ns = 0, receive_stalled_ns = 0;
  // These are summed by the NICs of its streams.
  std::uint64_t live_streams = 0;  ///< now, those that are up
  std::uint64_t stream_sent_bytes = 0, stream_received_bytes = 0;
  std::uint64_t sent_chunks = 0, received_chunks = 0, replayed = 0;
  std::uint64_t retransmitted = 0, breaks = 0, rejoins = 0;
  std::uint64_t longest_round_trip_ns = 0;  ///< now, of the streams that are up
};

/// Series of one name that are counted outside the transports, for the same reports.
struct SeriesFamily {
  struct Series {
    std::vector<std::pair<std::string, std::string>> labels;  ///< name and value
    double value = 0;
  };
  std::string name;  ///< "tombolo_..."
  std::string help;
  std::vector<Series> series;  ///< counters: they never decrease
};

/// Whoever counts them. Any thread may read, at any time.
class SeriesSource {
 public:
  virtual ~SeriesSource() = default;
  virtual std::vector<SeriesFamily> read() const = 0;
};

struct MetersReading {
  std::vector<ConnectionReading> connections;  ///< the live ones
  std::map<TotalsKey, Totals> totals;
  std::vector<SeriesFamily> more;  ///< of the sources
};

/// May be used by any thread at any time. Its lock is taken when a connection begins, ends, or is read.
class Meters {
 public:
  /// Sums are kept under at most this many keys; further ones are counted under the peer "other".
  static constexpr std::size_t kMostKeys = 4096;

  /// The meters that routers use unless given others; they live as long as the process.
  static const std::shared_ptr<Meters>& of_process();

  MetersReading read() const;

  /// The source is read with the meters from now on, and lives as long as they do.
  void add_source(std::shared_ptr<const SeriesSource> source);

  /// Connections that come from now on are traced. The tracer must outlive the meters; null: no tracing.
  void set_tracer(Tracer* tracer) noexcept { tracer_.store(tracer, std::memory_order_release); }
  Tracer* tracer() const noexcept { return tracer_.load(std::memory_order_acquire); }

 private:
  friend class Metering;
  std::shared_ptr<ConnectionMeter> add(MeterSubject subject);
  void remove(const ConnectionMeter& meter) noexcept;
  void sum_up(const ConnectionReading& reading, bool live, std::map<TotalsKey, Totals>& totals) const;

  std::atomic<Tracer*> tracer_{nullptr};
  mutable std::mutex lock_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<ConnectionMeter>> live_;
  std::map<TotalsKey, Totals> closed_;
  std::vector<std::shared_ptr<const SeriesSource>> sources_;
};

}  // namespace tombolo::transport
