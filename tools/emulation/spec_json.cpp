#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "tools/emulation/segments.h"
#include "tools/emulation/spec_parts.h"

namespace tombolo::emulation {
namespace {

// Parses a text field by `parse`, whose errors get file, line and field.
template <typename Parse>
auto parsed_at(const JsonCursor& cursor, Parse parse, std::string_view what) {
  try {
    return parse(cursor.text(), what);
  } catch (const Error& error) {
    cursor.reject(error.what());
  }
}

double rate_at(const JsonCursor& cursor) {
  return parsed_at(cursor, parse_bit_rate, "rate");
}

LinkSpec parse_link(const JsonCursor& cursor) {
  cursor.only({"between", "rate", "rate_back", "rtt", "loss", "queue"});
  auto ends = cursor.field("between").elements();
  if (ends.size() != 2) cursor.field("between").reject("expected the names of two segments");
  LinkSpec link;
  link.first = ends[0].text();
  link.second = ends[1].text();
  link.bits_per_second = rate_at(cursor.field("rate"));
  if (auto back = cursor.optional("rate_back")) link.bits_per_second_back = rate_at(*back);
  if (auto rtt = cursor.optional("rtt")) link.round_trip = parsed_at(*rtt, parse_round_trip, "rtt");
  if (auto loss = cursor.optional("loss")) link.loss = parsed_at(*loss, parse_loss, "loss");
  if (auto queue = cursor.optional("queue")) {
    link.queue_bytes = parsed_at(*queue, parse_size, "queue");
    if (link.queue_bytes < 2 * kMostFrame || link.queue_bytes > kGiB) {
      queue->reject("a queue from 132K (two of the largest packets) to 1G is needed");
    }
    if (!link.relayed()) queue->reject("only a link with rtt or loss has a queue of its own");
  }
  return link;
}

/// Reads a NIC that shares the port of another NIC, which decides its segment and rate.
void share_port(const JsonCursor& cursor, const std::vector<NicSpec>& earlier, NicSpec& nic) {
  for (const char* of_the_port : {"segment", "rate", "shaped"}) {
    if (auto given = cursor.optional(of_the_port))
      given->reject("it is that of the NIC that this one is \"behind\"");
  }
  const auto behind = cursor.field("behind");
  nic.behind = behind.text();
  const auto port = std::ranges::find(earlier, nic.behind, &NicSpec::name);
  if (port == earlier.end() || !port->behind.empty())
    behind.reject(fmt::format("'{}' is no earlier NIC of this host with a port of its own", nic.behind));
  if (port->fabric == nic.fabric)
    cursor.reject(fmt::format("it needs another \"fabric\" than '{}', which it is behind", nic.behind));
  nic.segment = port->segment;
  nic.bits_per_second = port->bits_per_second;
  nic.shaped = port->shaped;
}

NicSpec parse_nic(const JsonCursor& cursor, const std::vector<NicSpec>& earlier) {
  cursor.only({"name", "kind", "fabric", "segment", "rate", "shaped", "behind"});
  NicSpec nic;
  nic.name = cursor.field("name").text();
  if (auto kind = cursor.optional("kind")) {
    auto known = topology::nic_kind_from_name(kind->text());
    if (!known) kind->reject(fmt::format("'{}' is none of infiniband, roce, iwarp, tcp", kind->text()));
    nic.kind = *known;
  }
  if (auto fabric = cursor.optional("fabric")) nic.fabric = fabric->text();
  if (cursor.optional("behind")) {
    share_port(cursor, earlier, nic);
    return nic;
  }
  nic.segment = nic.fabric.empty() ? "ethernet" : nic.fabric;
  if (auto segment = cursor.optional("segment")) nic.segment = segment->text();
  nic.bits_per_second = rate_at(cursor.field("rate"));
  if (auto shaped = cursor.optional("shaped")) nic.shaped = shaped->boolean();
  return nic;
}

}  // namespace

Spec Spec::parse(const JsonDocument& document) {
  JsonCursor root = document.root();
  root.only({"name", "hosts", "links"});
  Spec spec;
  spec.name = root.field("name").text();
  for (const JsonCursor& entry : root.field("hosts").elements()) {
    entry.only({"name", "cluster", "devices", "nics"});
    HostSpec host;
    host.name = entry.field("name").text();
    host.cluster = entry.field("cluster").text();
    if (auto devices = entry.optional("devices")) host.devices = static_cast<int>(devices->integer(1, 64));
    for (const JsonCursor& nic : entry.field("nics").elements())
      host.nics.push_back(parse_nic(nic, host.nics));
    spec.hosts.push_back(std::move(host));
  }
  if (auto links = root.optional("links")) {
    for (const JsonCursor& entry : links->elements()) spec.links.push_back(parse_link(entry));
  }
  validate(spec);
  return spec;
}

}  // namespace tombolo::emulation
