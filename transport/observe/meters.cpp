#include "transport/observe/meters.h"

#include <algorithm>
#include <exception>

namespace tombolo::transport {
namespace {

TotalsKey key_of(const MeterSubject& subject, const std::string& local_nic, const std::string& peer_nic) {
  const Route& route = subject.route;
  return {route.transport, local_nic, peer_nic,
          route.peer_host.empty() ? route.peer_address : route.peer_host};
}

}  // namespace

const std::shared_ptr<Meters>& Meters::of_process() {
  // Connections may outlive static objects, so each holds a reference of its own.
  static const auto meters = std::make_shared<Meters>();
  return meters;
}

std::shared_ptr<ConnectionMeter> Meters::add(MeterSubject subject) {
  std::scoped_lock guard(lock_);
  const std::uint64_t id = next_id_++;
  // The key is fixed now, so that the connection's sums stay under it when it ends.
  const Route& route = subject.route;
  if (closed_.size() < kMostKeys) closed_.try_emplace(key_of(subject, route.local_nic, route.peer_nic));
  auto meter = std::make_shared<ConnectionMeter>(id, std::move(subject), tracer());
  live_.emplace(id, meter);
  return meter;
}

void Meters::remove(const ConnectionMeter& meter) noexcept {
  std::scoped_lock guard(lock_);
  try {
    sum_up(meter.read(), false, closed_);
  } catch (const std::exception&) {  // without memory its figures are missing in the sums
  }
  live_.erase(meter.id());
}

void Meters::sum_up(const ConnectionReading& reading, bool live, std::map<TotalsKey, Totals>& totals) const {
  const auto at = [&](const std::string& local_nic, const std::string& peer_nic) -> Totals& {
    TotalsKey key = key_of(reading.subject, local_nic, peer_nic);
    if (totals.size() >= kMostKeys && !totals.contains(key)) key.peer = key.peer_nic = "other";
    return totals[key];
  };
  const Route& route = reading.subject.route;
  const Statistics& statistics = reading.statistics;
  Totals& mine = at(route.local_nic, route.peer_nic);
  ++mine.connections;
  mine.live += live ? 1 : 0;
  mine.sent_bytes += statistics.bytes_sent;
  mine.received_bytes += statistics.bytes_received;
  mine.sent_messages += statistics.messages_sent;
  mine.received_messages += statistics.messages_received;
  mine.send_stalls += statistics.send_stalls;
  mine.receive_stalls += statistics.receive_stalls;
  mine.send_stalled_ns += static_cast<std::uint64_t>(statistics.send_stalled.count());
  mine.receive_stalled_ns += static_cast<std::uint64_t>(statistics.receive_stalled.count());
  for (const StreamReading& stream : reading.streams) {
    Totals& its = at(stream.local_nic, stream.peer_nic);
    its.stream_sent_bytes += stream.sent_bytes;
    its.stream_received_bytes += stream.received_bytes;
    its.sent_chunks += stream.sent_chunks;
    its.received_chunks += stream.received_chunks;
    its.replayed += stream.replayed;
    its.retransmitted += stream.retransmitted;
    its.breaks += stream.breaks;
    its.rejoins += stream.rejoins;
    if (!live || !stream.up) continue;
    ++its.live_streams;
    its.longest_round_trip_ns = std::max(its.longest_round_trip_ns, stream.round_trip_ns);
  }
}

MetersReading Meters::read() const {
  MetersReading all;
  std::vector<std::shared_ptr<const SeriesSource>> sources;
  {
    // While the lock is held no connection goes from the live to the closed ones, so that none is missed and
    // none counts twice.
    std::scoped_lock guard(lock_);
    all.totals = closed_;
    for (const auto& [id, meter] : live_) {
      all.connections.push_back(meter->read());
      sum_up(all.connections.back(), true, all.totals);
    }
    sources = sources_;
  }
  for (const auto& source : sources) {
    for (SeriesFamily& family : source->read()) all.more.push_back(std::move(family));
  }
  return all;
}

void Meters::add_source(std::shared_ptr<const SeriesSource> source) {
  std::scoped_lock guard(lock_);
  sources_.push_back(std::move(source));
}

}  // namespace tombolo::transport
