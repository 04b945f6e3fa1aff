#include "transport/observe/report/exposition.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/printable.h"

namespace tombolo::transport::report {
namespace {

using Json = nlohmann::json;

/// One family of series. Exactly one of the two members is used; times are counted in nanoseconds and shown
/// in seconds.
struct Family {
  std::string_view name, type, help;
  std::uint64_t Totals::*value;
  bool nanoseconds = false;
};

constexpr Family kFamilies[] = {
    {"tombolo_connections_opened_total", "counter", "Connections made so far.", &Totals::connections},
    {"tombolo_connections", "gauge", "Connections that are open now.", &Totals::live},
    {"tombolo_sent_bytes_total", "counter",
     "Payload bytes sent, by the NIC that connections were routed over.", &Totals::sent_bytes},
    {"tombolo_received_bytes_total", "counter",
     "Payload bytes received, by the NIC that connections were routed over.", &Totals::received_bytes},
    {"tombolo_sent_messages_total", "counter", "Messages sent.", &Totals::sent_messages},
    {"tombolo_received_messages_total", "counter", "Messages received.", &Totals::received_messages},
    {"tombolo_send_stalls_total", "counter", "Times that a send was pending and nothing moved for 100 ms.",
     &Totals::send_stalls},
    {"tombolo_receive_stalls_total", "counter",
     "Times that only receives were pending and nothing moved for 100 ms; the peer may just have been busy.",
     &Totals::receive_stalls},
    {"tombolo_send_stalled_seconds_total", "counter", "Length of the stalls with a send pending.",
     &Totals::send_stalled_ns, true},
    {"tombolo_receive_stalled_seconds_total", "counter", "Length of the stalls with only receives pending.",
     &Totals::receive_stalled_ns, true},
    {"tombolo_streams", "gauge", "Streams that are up now.", &Totals::live_streams},
    {"tombolo_stream_sent_bytes_total", "counter",
     "Bytes sent by streams, framing and repetitions included, by the NIC of the stream.",
     &Totals::stream_sent_bytes},
    {"tombolo_stream_received_bytes_total", "counter",
     "Bytes received by streams, framing and repetitions included, by the NIC of the stream.",
     &Totals::stream_received_bytes},
    {"tombolo_sent_chunks_total", "counter", "Chunks sent by streams.", &Totals::sent_chunks},
    {"tombolo_received_chunks_total", "counter", "Chunks received by streams.", &Totals::received_chunks},
    {"tombolo_replayed_chunks_total", "counter", "Chunks sent again after a stream broke.",
     &Totals::replayed},
    {"tombolo_retransmitted_segments_total", "counter", "Segments that the kernel had to send again.",
     &Totals::retransmitted},
    {"tombolo_stream_breaks_total", "counter", "Times that a stream was lost.", &Totals::breaks},
    {"tombolo_stream_rejoins_total", "counter", "Times that a lost stream came back.", &Totals::rejoins},
    {"tombolo_round_trip_seconds", "gauge", "Longest smoothed round trip of the streams that are up.",
     &Totals::longest_round_trip_ns, true},
};

/// Quotes a label's value. Names may come from peers, and text that is not UTF-8 would make the whole page
/// invalid.
std::string label(std::string_view value) {
  std::string text;
  for (char character : printable(value)) {
    if (character == '\\' || character == '"') text += '\\';
    if (character == '\n') {
      text += "\\n";
    } else {
      text += character;
    }
  }
  return text;
}

/// A series' name without the prefix that all share and the suffix of counters.
std::string short_name(std::string_view name) {
  name.remove_prefix(std::string_view("tombolo_").size());
  if (name.ends_with("_total")) name.remove_suffix(std::string_view("_total").size());
  return std::string(name);
}

Json json_of(const SeriesFamily& family) {
  Json all = Json::array();
  for (const SeriesFamily::Series& series : family.series) {
    Json one{{"value", series.value}};
    for (const auto& [name, value] : series.labels) one[name] = value;
    all.push_back(std::move(one));
  }
  return all;
}

double unix_seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Json json_of(const StreamReading& stream) {
  return {{"nic", stream.local_nic},
          {"peer_nic", stream.peer_nic},
          {"up", stream.up},
          {"sent_bytes", stream.sent_bytes},
          {"received_bytes", stream.received_bytes},
          {"sent_chunks", stream.sent_chunks},
          {"received_chunks", stream.received_chunks},
          {"retransmitted_segments", stream.retransmitted},
          {"replayed_chunks", stream.replayed},
          {"breaks", stream.breaks},
          {"rejoins", stream.rejoins},
          {"round_trip_seconds", static_cast<double>(stream.round_trip_ns) * 1e-9},
          {"window_bytes", stream.window_bytes},
          {"bytes_per_second", stream.bytes_per_second},
          {"path_mtu", stream.path_mtu}};
}

Json json_of(const ConnectionReading& reading) {
  const Route& route = reading.subject.route;
  const Statistics& counts = reading.statistics;
  Json streams = Json::array();
  for (const StreamReading& stream : reading.streams) streams.push_back(json_of(stream));
  return {{"id", reading.id},
          {"transport", route.transport},
          {"kind", topology::nic_kind_name(route.kind)},
          {"emulated", route.emulated},
          {"nic", route.local_nic},
          {"peer_nic", route.peer_nic},
          {"peer_host", route.peer_host},
          {"peer_address", route.peer_address},
          {"peer_name", reading.subject.peer_name},
          {"reason", route.reason},
          {"label", reading.subject.label},
          {"opened", unix_seconds(reading.opened)},
          {"sent_bytes", counts.bytes_sent},
          {"received_bytes", counts.bytes_received},
          {"sent_messages", counts.messages_sent},
          {"received_messages", counts.messages_received},
          {"send_stalls", counts.send_stalls},
          {"receive_stalls", counts.receive_stalls},
          {"send_stalled_seconds", to_seconds(counts.send_stalled)},
          {"receive_stalled_seconds", to_seconds(counts.receive_stalled)},
          {"live_streams", counts.live_streams},
          {"decided_streams", counts.decided_streams},
          {"streams", std::move(streams)}};
}

}  // namespace

std::string to_prometheus(const MetersReading& reading, const Reporter& reporter) {
  fmt::memory_buffer page;
  const auto out = std::back_inserter(page);
  fmt::format_to(out,
                 "# HELP tombolo_info What this process runs.\n# TYPE tombolo_info gauge\n"
                 "tombolo_info{{version=\"{}\",host=\"{}\",process=\"{}\"}} 1\n",
                 TOMBOLO_VERSION, label(reporter.host), reporter.process);
  for (const Family& family : kFamilies) {
    fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} {2}\n", family.name, family.help, family.type);
    for (const auto& [key, totals] : reading.totals) {
      fmt::format_to(out, "{}{{transport=\"{}\",nic=\"{}\",peer_nic=\"{}\",peer=\"{}\"}} ", family.name,
                     label(key.transport), label(key.local_nic), label(key.peer_nic), label(key.peer));
      const std::uint64_t value = totals.*family.value;
      if (family.nanoseconds) {
        fmt::format_to(out, "{}\n", static_cast<double>(value) * 1e-9);
      } else {
        fmt::format_to(out, "{}\n", value);
      }
    }
  }
  for (const SeriesFamily& family : reading.more) {
    fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} counter\n", family.name, family.help);
    for (const SeriesFamily::Series& one : family.series) {
      fmt::format_to(out, "{}{{", family.name);
      for (std::size_t i = 0; i < one.labels.size(); ++i)
        fmt::format_to(out, "{}{}=\"{}\"", i > 0 ? "," : "", one.labels[i].first,
                       label(one.labels[i].second));
      fmt::format_to(out, "}} {}\n", one.value);
    }
  }
  return fmt::to_string(page);
}

Json to_json(const MetersReading& reading, const Reporter& reporter) {
  Json totals = Json::array();
  for (const auto& [key, sums] : reading.totals) {
    Json one{
        {"transport", key.transport}, {"nic", key.local_nic}, {"peer_nic", key.peer_nic}, {"peer", key.peer}};
    for (const Family& family : kFamilies) {
      const std::string name = short_name(family.name);
      const std::uint64_t value = sums.*family.value;
      if (family.nanoseconds) {
        one[name] = static_cast<double>(value) * 1e-9;
      } else {
        one[name] = value;
      }
    }
    totals.push_back(std::move(one));
  }
  Json connections = Json::array();
  for (const ConnectionReading& one : reading.connections) connections.push_back(json_of(one));
  Json more = Json::object();
  for (const SeriesFamily& family : reading.more) more[short_name(family.name)] = json_of(family);
  return {{"tombolo_meters", 1},
          {"version", TOMBOLO_VERSION},
          {"host", reporter.host},
          {"process", reporter.process},
          {"time", unix_seconds(std::chrono::system_clock::now())},
          {"totals", std::move(totals)},
          {"more", std::move(more)},
          {"connections", std::move(connections)}};
}

}  // namespace tombolo::transport::report
