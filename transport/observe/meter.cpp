#include "transport/observe/meter.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/backend.h"
#include "transport/kernel.h"
#include "transport/observe/meters.h"

namespace tombolo::transport {

void read_tcp_info(int socket, StreamMeter& meter) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  // An older kernel fills in fewer fields; the others then stay 0, which means "not known".
  if (kernel().getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  meter.set_retransmitted(info.tcpi_total_retrans);
  meter.round_trip_ns.set(std::uint64_t{info.tcpi_rtt} * 1000);
  meter.window_bytes.set(std::uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss);
  meter.bytes_per_second.set(info.tcpi_delivery_rate);
  meter.path_mtu.set(info.tcpi_pmtu);
}

ConnectionMeter::ConnectionMeter(std::uint64_t id, MeterSubject subject, Tracer* tracer)
    : id_(id), subject_(std::move(subject)), tracer_(tracer), opened_(std::chrono::system_clock::now()) {
  if (tracer_ != nullptr)
    tracer_->opened(id_, describe(subject_.route.transport, subject_.route, subject_.peer_name));
}

ConnectionMeter::~ConnectionMeter() {
  if (tracer_ != nullptr) tracer_->closed(id_);
}

StreamMeter& ConnectionMeter::add_stream(std::string local_nic, std::string peer_nic) {
  std::scoped_lock guard(lock_);
  Stream& stream = streams_.emplace_back();
  stream.local_nic = std::move(local_nic);
  stream.peer_nic = std::move(peer_nic);
  stream.meter.tracer_ = tracer_;
  stream.meter.connection_ = id_;
  stream.meter.index_ = static_cast<std::uint32_t>(streams_.size() - 1);
  return stream.meter;
}

Statistics ConnectionMeter::statistics() const noexcept {
  Statistics all;
  all.connection = id_;
  all.bytes_sent = sent_bytes.get();
  all.bytes_received = received_bytes.get();
  all.messages_sent = sent_messages.get();
  all.messages_received = received_messages.get();
  all.send_stalls = send_stalls.get();
  all.receive_stalls = receive_stalls.get();
  all.send_stalled = Duration(send_stalled_ns.get());
  all.receive_stalled = Duration(receive_stalled_ns.get());
  all.live_streams = live_streams.get();
  all.decided_streams = decided_streams.get();
  std::scoped_lock guard(lock_);
  for (const Stream& stream : streams_) {
    all.retransmitted += stream.meter.retransmitted();
    all.replayed += stream.meter.replayed.get();
    all.breaks += stream.meter.breaks.get();
    all.rejoins += stream.meter.rejoins.get();
  }
  return all;
}

ConnectionReading ConnectionMeter::read() const {
  ConnectionReading reading{id_, subject_, opened_, statistics(), {}};
  std::scoped_lock guard(lock_);
  for (const Stream& stream : streams_) {
    const StreamMeter& meter = stream.meter;
    StreamReading& one = reading.streams.emplace_back();
    one.local_nic = stream.local_nic;
    one.peer_nic = stream.peer_nic;
    one.up = meter.down.get() == 0;
    one.sent_bytes = meter.sent_bytes.get();
    one.received_bytes = meter.received_bytes.get();
    one.sent_chunks = meter.sent_chunks.get();
    one.received_chunks = meter.received_chunks.get();
    one.retransmitted = meter.retransmitted();
    one.replayed = meter.replayed.get();
    one.breaks = meter.breaks.get();
    one.rejoins = meter.rejoins.get();
    one.round_trip_ns = meter.round_trip_ns.get();
    one.window_bytes = meter.window_bytes.get();
    one.bytes_per_second = meter.bytes_per_second.get();
    one.path_mtu = meter.path_mtu.get();
  }
  return reading;
}

Metering::Metering(std::shared_ptr<Meters> meters, MeterSubject subject) : meters_(std::move(meters)) {
  meter_ =
      meters_ ? meters_->add(std::move(subject)) : std::make_shared<ConnectionMeter>(0, std::move(subject));
}

Metering::~Metering() {
  // A forked child's copy counts nothing, and might wait for a lock that a thread of the parent held.
  if (meters_ && generation_ == fork_generation()) meters_->remove(*meter_);
}

bool StallWatch::quiet(ConnectionMeter& meter, TimePoint now, bool sending, bool receiving) noexcept {
  if (!sending && !receiving) {
    if (watching_) end(meter, now);
    return false;
  }
  if (!watching_ || sending_ != sending) {
    if (watching_) end(meter, now);
    watching_ = true;
    sending_ = sending;
    since_ = counted_to_ = now;
    return false;
  }
  const bool before = stalled_;
  count(meter, now);
  return stalled_ && !before;
}

void StallWatch::count(ConnectionMeter& meter, TimePoint now) noexcept {
  if (now - since_ < kStall) return;
  if (!stalled_) {
    stalled_ = true;
    (sending_ ? meter.send_stalls : meter.receive_stalls).add(1);
  }
  (sending_ ? meter.send_stalled_ns : meter.receive_stalled_ns)
      .add(static_cast<std::uint64_t>((now - counted_to_).count()));
  counted_to_ = now;
}

void StallWatch::end(ConnectionMeter& meter, TimePoint now) noexcept {
  count(meter, now);
  if (stalled_ && meter.tracer() != nullptr) {
    meter.tracer()->add(
        {sending_ ? TraceKind::kSendStall : TraceKind::kReceiveStall, false, 0, meter.id(), 0, since_, now});
  }
  watching_ = stalled_ = false;
}

}  // namespace tombolo::transport
