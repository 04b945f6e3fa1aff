// What one connection counts. Its own thread writes and any thread reads, without locked instructions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "transport/kernel.h"
#include "transport/observe/tracer.h"
#include "transport/transport.h"

namespace tombolo::transport {

class Meters;

/// A number with a single writer: a plain load and store, of which readers see no half-written value.
class Count {
 public:
  void add(std::uint64_t more) noexcept { set(get() + more); }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A copy of one stream's counters for readers.
struct StreamReading {
  std::string local_nic, peer_nic;
  bool up = true;
  std::uint64_t sent_bytes = 0,
                received_bytes = 0;  ///< all bytes of the stream, framing and repetitions included
  std::uint64_t sent_chunks = 0, received_chunks = 0;
  std::uint64_t retransmitted = 0;  ///< segments that its kernel sent again, over all epochs of the stream
  /// chunks that it sent in place of another stream, or again after it came back
  std::uint64_t replayed = 0;
  std::uint64_t breaks = 0;   ///< times it was lost
  std::uint64_t rejoins = 0;  ///< times it came back
  // What the kernel or the NIC reported last; 0 = not known.
  std::uint64_t round_trip_ns = 0;     ///< smoothed
  std::uint64_t window_bytes = 0;      ///< congestion window
  std::uint64_t bytes_per_second = 0;  ///< delivery rate
  std::uint64_t path_mtu = 0;          ///< bytes
};

/// One stream or queue pair of a connection. Written by the connection's thread.
struct StreamMeter {
  Count sent_bytes, received_bytes, sent_chunks, received_chunks;
  Count replayed, breaks, rejoins;
  Count round_trip_ns, window_bytes, bytes_per_second, path_mtu;
  Count down;  ///< 1 while it is lost

  /// Takes the count of the current socket. The kernel counts per socket, and a stream that comes back has a
  /// new one.
  void set_retransmitted(std::uint64_t of_this_socket) noexcept {
    retransmitted_.set(retransmitted_before_ + of_this_socket);
  }
  void broke() noexcept {
    breaks.add(1);
    down.set(1);
    retransmitted_before_ = retransmitted_.get();
    trace(TraceKind::kBreak);
  }
  void rejoined() noexcept {
    rejoins.add(1);
    down.set(0);
    trace(TraceKind::kRejoin);
  }
  std::uint64_t retransmitted() const noexcept { return retransmitted_.get(); }

 private:
  friend class ConnectionMeter;
  void trace(TraceKind kind) const noexcept {
    if (tracer_ == nullptr) return;
    const TimePoint now = Clock::steady().now();
    tracer_->add({kind, false, index_, connection_, 0, now, now});
  }

  Tracer* tracer_ = nullptr;
  std::uint64_t connection_ = 0;
  std::uint32_t index_ = 0;
  Count retransmitted_;
  std::uint64_t retransmitted_before_ = 0;
};

/// Takes the figures that the kernel keeps of a TCP socket. It costs one system call of about a microsecond.
void read_tcp_info(int socket, StreamMeter& meter) noexcept;

/// Describes the connection that a meter belongs to. It does not change.
struct MeterSubject {
  Route route;
  std::uint64_t label = 0;
  std::string peer_name;  ///< "rank 3"; may be empty
};

/// A copy of one connection's counters for readers.
struct ConnectionReading {
  std::uint64_t id = 0;  ///< unique in the process
  MeterSubject subject;
  std::chrono::system_clock::time_point opened;
  Statistics statistics;
  std::vector<StreamReading> streams;
};

/// One connection's counters. The thread that uses the connection writes; stream() and everything read-only
/// may be called by any thread.
class alignas(64) ConnectionMeter {
 public:
  /// `tracer` may be null.
  ConnectionMeter(std::uint64_t id, MeterSubject subject, Tracer* tracer = nullptr);
  ~ConnectionMeter();
  ConnectionMeter(const ConnectionMeter&) = delete;
  ConnectionMeter& operator=(const ConnectionMeter&) = delete;

  Count sent_bytes, received_bytes;        ///< payload
  Count sent_messages, received_messages;  ///< completed
  /// How often something was pending and nothing moved for longer than kStall, and how long that was in all.
  /// A stall counts as sending where a send was pending, else as receiving, which may only mean that the peer
  /// is busy.
  Count send_stalls, send_stalled_ns, receive_stalls, receive_stalled_ns;
  Count live_streams;     ///< of those that are up
  Count decided_streams;  ///< the number that the connection should have

  /// Adds a stream. The reference stays valid as long as the meter. It takes a lock, so it is not for the hot
  /// path.
  StreamMeter& add_stream(std::string local_nic, std::string peer_nic);

  const MeterSubject& subject() const noexcept { return subject_; }
  std::uint64_t id() const noexcept { return id_; }
  Tracer* tracer() const noexcept { return tracer_; }
  Statistics statistics() const noexcept;
  ConnectionReading read() const;

 private:
  struct Stream {
    std::string local_nic, peer_nic;
    StreamMeter meter;
  };
  std::uint64_t id_;
  MeterSubject subject_;
  Tracer* tracer_;
  std::chrono::system_clock::time_point opened_;
  mutable std::mutex lock_;  // protects the list, not the counters
  std::deque<Stream> streams_;
};

/// Registers a connection's meter for as long as the object lives; the counts stay in the totals afterwards.
class Metering {
 public:
  /// `meters` may be null: then only the connection itself reads its counters.
  Metering(std::shared_ptr<Meters> meters, MeterSubject subject);
  ~Metering();
  Metering(const Metering&) = delete;
  Metering& operator=(const Metering&) = delete;

  ConnectionMeter* operator->() const noexcept { return meter_.get(); }
  ConnectionMeter& operator*() const noexcept { return *meter_; }

 private:
  std::shared_ptr<Meters> meters_;
  std::shared_ptr<ConnectionMeter> meter_;
  unsigned generation_ = fork_generation();
};

/// When something is pending and nothing moves for longer than this, that is a stall.
inline constexpr Duration kStall = std::chrono::milliseconds(100);

/// Finds the stalls of one connection. It belongs to the connection's thread.
class StallWatch {
 public:
  /// To be called when nothing moved in a pass. True once per stall, when it begins.
  bool quiet(ConnectionMeter& meter, TimePoint now, bool sending, bool receiving) noexcept;
  /// To be called when something moved. Reads the clock only if quiet() was called before.
  void moved(ConnectionMeter& meter, const Clock& clock) noexcept {
    if (!watching_) return;
    end(meter, clock.now());
  }

 private:
  void end(ConnectionMeter& meter, TimePoint now) noexcept;
  void count(ConnectionMeter& meter, TimePoint now) noexcept;

  bool watching_ = false;  // something is pending, and nothing moved since `since_`
  bool stalled_ = false;   // for longer than kStall
  bool sending_ = false;
  TimePoint since_{}, counted_to_{};
};

/// Says when figures that cost a system call are due: at most four times per second.
class RefreshTimer {
 public:
  bool due(TimePoint now) noexcept {
    if (now - last_ < std::chrono::milliseconds(250) && last_ != TimePoint{}) return false;
    last_ = now;
    return true;
  }

 private:
  TimePoint last_{};
};

}  // namespace tombolo::transport
