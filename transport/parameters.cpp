// Everything of this room that the environment can set.
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/units.h"
#include "transport/router.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/wire.h"

namespace tombolo::transport {
namespace {

const Parameter kRequire{
    "TOMBOLO_REQUIRE", ParameterType::kChoice, "none",
    "rdma: a connection between hosts of one cluster that cannot use NICs of an RDMA kind is "
    "an error instead of a fallback to TCP.",
    "none|rdma"};
const Parameter kTransports{
    "TOMBOLO_TRANSPORTS", ParameterType::kText, "",
    "Comma list of the transports that may be used (this build has: tcp); empty = all."};
const Parameter kStreams{
    "TOMBOLO_TCP_STREAMS", ParameterType::kInteger, "0",
    "TCP streams per connection (1 to 64), as the connecting end says. 0 = one on paths with "
    "a round trip below 5 ms, else eight."};
const Parameter kChunk{
    "TOMBOLO_TCP_CHUNK", ParameterType::kSize, "0",
    "Most payload bytes that one stream takes at once. 0 = whole messages with one stream, "
    "256K with several."};
const Parameter kIdleTimeout{"TOMBOLO_TCP_IDLE_TIMEOUT", ParameterType::kSeconds, "60",
                             "Seconds after which a TCP connection fails if it has something to send or "
                             "receive and the peer's host answers "
                             "nothing. If the host answers but its process takes nothing of what is sent, "
                             "ten times as long. A receive "
                             "alone may wait for as long as the peer's host is there."};
const Parameter kNicLimits{
    "TOMBOLO_NIC_LIMITS", ParameterType::kText, "",
    "Limits on what this process moves through a NIC, each direction on its own, in bit/s: "
    "\"eth0=100M,fast0=2G\" (powers of 1000). For emulation where the network cannot apply "
    "them."};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Bits per second: a number and K, M, G or T for powers of 1000.
double parse_bit_rate(std::string_view text, std::string_view whole) {
  double number = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  double factor = suffix.empty()  ? 1
                  : suffix == "K" ? 1e3
                  : suffix == "M" ? 1e6
                  : suffix == "G" ? 1e9
                  : suffix == "T" ? 1e12
                                  : 0;
  if (status != std::errc{} || factor == 0 || !(number > 0) || number * factor > 1e15) {
    fail(Cause::kInvalidUsage,
         "{}='{}': expected NIC=RATE with a rate in bit/s above 0 such as 100M, found '{}'", kNicLimits.name,
         whole, text);
  }
  return number * factor;
}

}  // namespace

Policy Policy::from_environment() {
  Policy policy;
  policy.require_rdma = kRequire.choice() == "rdma";
  policy.transports = split(kTransports.text());
  for (const auto& name : policy.transports) {
    if (name != "tcp") {
      fail(Cause::kInvalidUsage, "{}='{}': there is no transport '{}'; this build has: tcp", kTransports.name,
           kTransports.text(), name);
    }
  }
  return policy;
}

TcpOptions TcpOptions::from_environment() {
  TcpOptions options;
  auto streams = kStreams.integer();
  if (streams < 0 || streams > tcp::kMostStreams) {
    fail(Cause::kInvalidUsage, "{}={}: expected 0 to {}", kStreams.name, streams, tcp::kMostStreams);
  }
  options.streams = static_cast<int>(streams);
  auto chunk = kChunk.size();
  if (chunk > tcp::kLongestChunk) {
    fail(Cause::kInvalidUsage, "{}={}: expected at most {}", kChunk.name, kChunk.text(),
         format_size(tcp::kLongestChunk));
  }
  options.chunk_bytes = chunk;
  double idle = kIdleTimeout.seconds();
  if (!(idle >= 1 && idle <= 86400)) {
    fail(Cause::kInvalidUsage, "{}={}: expected 1 to 86400 seconds", kIdleTimeout.name, kIdleTimeout.text());
  }
  options.idle_timeout = from_seconds(idle);
  return options;
}

std::vector<NicLimit> nic_limits_from_environment() {
  std::string whole = kNicLimits.text();
  std::vector<NicLimit> limits;
  for (const auto& part : split(whole)) {
    auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(Cause::kInvalidUsage, "{}='{}': expected NIC=RATE, found '{}'", kNicLimits.name, whole, part);
    }
    double bits = parse_bit_rate(std::string_view(part).substr(equals + 1), whole);
    limits.push_back({part.substr(0, equals), bits / 8});
  }
  return limits;
}

const std::vector<const Parameter*>& transport_parameters() {
  static const std::vector<const Parameter*> all{&kRequire, &kTransports,  &kStreams,
                                                 &kChunk,   &kIdleTimeout, &kNicLimits};
  return all;
}

}  // namespace tombolo::transport
