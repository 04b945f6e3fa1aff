// All environment parameters of this room.
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/units.h"
#include "transport/bootstrap/handshake.h"
#include "transport/observe/report/reporting.h"
#include "transport/rdma/area.h"
#include "transport/routing/router.h"
#include "transport/tcp/path/congestion.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::transport {
namespace {

const Parameter kRequire{
    "TOMBOLO_REQUIRE", ParameterType::kChoice, "none",
    "rdma: a connection between hosts of one cluster that cannot use NICs of an RDMA kind is "
    "an error instead of a fallback to TCP.",
    "none|rdma"};
const Parameter kTransports{"TOMBOLO_TRANSPORTS", ParameterType::kText, "",
                            "Comma list of the transports that may be used: tcp (between any two processes), "
                            "shm (inside a host, where processes of one user see each other), "
                            "rdma (between InfiniBand or RoCE NICs), "
                            "ucx (the UCX library, for RDMA NICs that rdma cannot use; between others only "
                            "where tcp is not in the list); empty = all. UCX reads its own variables, "
                            "such as UCX_TLS and UCX_NET_DEVICES."};
const Parameter kStreams{
    "TOMBOLO_TCP_STREAMS", ParameterType::kInteger, "0",
    "TCP streams per connection (1 to 64), as the connecting end says. 0 = one on paths with "
    "a round trip below 5 ms that one window fills, else up to eight; more are added while they are held "
    "back "
    "by windows or losses and it helps."};
const Parameter kChunk{
    "TOMBOLO_TCP_CHUNK", ParameterType::kSize, "0",
    "Most payload bytes that one stream takes at once. 0 = 1M with one stream, with several "
    "their share of 2M, 32K to 256K."};
const Parameter kIdleTimeout{"TOMBOLO_TCP_IDLE_TIMEOUT", ParameterType::kSeconds, "60",
                             "Seconds after which a TCP connection fails if it has something to send or "
                             "receive and the peer's host answers "
                             "nothing. If the host answers but its process takes nothing of what is sent, "
                             "ten times as long. A receive "
                             "alone may wait for as long as the peer's host is there."};
const Parameter kReplay{
    "TOMBOLO_TCP_REPLAY", ParameterType::kSize, "64M",
    "Most bytes per connection that copies of sent messages may take until the peer has "
    "acknowledged them. Small messages use a part of it; on paths with a round trip of 5 ms "
    "and more all do, up to twice rate x round trip."};
const Parameter kChecksums{
    "TOMBOLO_TCP_CHECKSUMS", ParameterType::kChoice, "off",
    "on: what this process sends over TCP carries a CRC32C per chunk for its payload, beside TCP's own 16 "
    "bits; a damaged chunk breaks its stream and goes again. Headers always carry one.",
    "on|off"};
const Parameter kCongestion{
    "TOMBOLO_TCP_CONGESTION", ParameterType::kText, "auto",
    "Congestion control of TCP streams, each end for what it sends: a comma list of [WHERE=]NAME, where "
    "WHERE "
    "is one of this host's NICs, long or short (a round trip of 5 ms and more, or less), or nothing for all: "
    "\"long=bbr,eth1=cubic\". auto = bbr on long paths and where packets are lost without a queue, if the "
    "kernel lets this process; elsewhere, and with the name system, the system's."};
const Parameter kPacing{"TOMBOLO_TCP_PACING", ParameterType::kText, "",
                        "An even pace for what this process's TCP streams hand to a NIC, in bit/s: "
                        "\"eth0=10G\"; its streams share "
                        "it equally. Empty = only what congestion control itself does."};
const Parameter kTls{
    "TOMBOLO_TLS", ParameterType::kChoice, "off",
    "Encrypts connections over TCP with TLS 1.3: those between hosts of different clusters, or all. The same "
    "on every rank. What leaves a cluster then goes over TCP only.",
    "off|between-clusters|on"};
const Parameter kTlsCertificate{
    "TOMBOLO_TLS_CERTIFICATE", ParameterType::kText, "",
    "PEM file with this rank's certificate, and the chain up to the authority if that did not sign it "
    "itself. "
    "Without it TLS keys come from the secret that authenticates connections anyway."};
const Parameter kTlsKey{"TOMBOLO_TLS_KEY", ParameterType::kText, "",
                        "PEM file with the private key of TOMBOLO_TLS_CERTIFICATE, without a pass phrase."};
const Parameter kTlsAuthority{"TOMBOLO_TLS_AUTHORITY", ParameterType::kText, "",
                              "PEM file with the certificate of the authority that signed every rank's. A "
                              "peer with another is refused."};
const Parameter kShmFetch{
    "TOMBOLO_SHM_FETCH", ParameterType::kChoice, "on",
    "Inside a host: on lets a receiver copy large messages straight from the sender's memory "
    "(process_vm_readv) where both ends may and that costs less; off copies all through the shared ring; "
    "always copies all large ones straight, to compare. off also keeps collectives among ranks of one host "
    "from reading each other's buffers.",
    "on|off|always"};
const Parameter kRdmaPairs{"TOMBOLO_RDMA_QPS", ParameterType::kInteger, "1",
                           "Queue pairs for payload (1 to 8) of an RDMA connection on each pair of NICs, as "
                           "the connecting end says. Messages "
                           "of 128K and more are split over them."};
const Parameter kRdmaEager{
    "TOMBOLO_RDMA_EAGER", ParameterType::kSize, "4K",
    "RDMA messages up to this size (at most 4K; the lower of the two ends' counts) are copied through "
    "buffers posted "
    "in advance; larger ones are written straight into the receive. 0, for GPU memory: all are."};
const Parameter kRdmaGid{
    "TOMBOLO_RDMA_GID_INDEX", ParameterType::kInteger, "-1",
    "Which entry of an RDMA port's GID table to use. -1 = RoCE v2 before v1, the NIC's own IP "
    "address before others, IPv4 before IPv6."};
const Parameter kRdmaServiceLevel{"TOMBOLO_RDMA_SL", ParameterType::kInteger, "0",
                                  "Service level of RDMA packets (0 to 15)."};
const Parameter kRdmaTrafficClass{
    "TOMBOLO_RDMA_TC", ParameterType::kInteger, "0",
    "Traffic class of RDMA packets (0 to 255), which RoCE switches take for DSCP and ECN."};
const Parameter kRdmaTimeout{"TOMBOLO_RDMA_TIMEOUT", ParameterType::kInteger, "0",
                             "Exponent (1 to 31) of the time that an RDMA NIC waits for an acknowledgement, "
                             "4.096 us * 2^exponent. 0 = the "
                             "largest with which a dead path is noticed within 40 s and "
                             "TOMBOLO_TCP_IDLE_TIMEOUT, each try lasting up to four "
                             "times that."};
const Parameter kRdmaRetries{"TOMBOLO_RDMA_RETRIES", ParameterType::kInteger, "7",
                             "How often an RDMA NIC tries again (0 to 7) until the connection fails."};
const Parameter kFailover{
    "TOMBOLO_FAILOVER", ParameterType::kChoice, "on",
    "on: where the NICs of an RDMA connection fail, its messages go on over other NICs or over TCP, and none "
    "is lost; they return when the NICs are back, and what began over TCP for a lack of them goes there. For "
    "that both ends must say on, and another way must be "
    "there and allowed. A NIC that gets no "
    "acknowledgement is then given up after half a second (TOMBOLO_RDMA_TIMEOUT changes it). off: the "
    "connection fails.",
    "on|off"};
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

/// Bytes per second by NIC.
std::vector<std::pair<std::string, double>> rates_by_nic(const Parameter& parameter) {
  const std::string whole = parameter.text();
  std::vector<std::pair<std::string, double>> rates;
  for (const auto& part : split(whole)) {
    auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(Cause::kInvalidUsage, "{}='{}': expected NIC=RATE, found '{}'", parameter.name, whole, part);
    }
    double bits = parse_bit_rate(std::string_view(part).substr(equals + 1),
                                 fmt::format("{}='{}'", parameter.name, whole));
    if (!(bits >= 8)) fail(Cause::kInvalidUsage, "{}='{}': expected at least 8 bit/s", parameter.name, whole);
    rates.emplace_back(part.substr(0, equals), bits / 8);
  }
  return rates;
}

}  // namespace

Policy Policy::from_environment() {
  Policy policy;
  policy.require_rdma = kRequire.choice() == "rdma";
  policy.transports = split(kTransports.text());
  for (const auto& name : policy.transports) {
    if (std::ranges::find(kCarrierNames, name) != std::end(kCarrierNames)) continue;
    fail(Cause::kInvalidUsage, "{}='{}': there is no transport '{}'; this build has: {}", kTransports.name,
         kTransports.text(), name, fmt::join(kCarrierNames, ", "));
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
  options.replay_bytes = kReplay.size();
  if (options.replay_bytes < 64 * kKiB || options.replay_bytes > 64 * kGiB) {
    fail(Cause::kInvalidUsage, "{}={}: expected 64K to 64G", kReplay.name, kReplay.text());
  }
  options.checksums = kChecksums.choice() == "on";
  options.congestion = kCongestion.text();
  // A wrong value throws here, and not only when it is first used.
  [[maybe_unused]] const tcp::CongestionRules checked(options.congestion, kCongestion.name);
  for (auto& [nic, rate] : rates_by_nic(kPacing)) options.pacing.push_back({std::move(nic), rate});
  return options;
}

TlsOptions TlsOptions::from_environment() {
  TlsOptions options;
  const std::string tls = kTls.choice();
  options.use = tls == "on"                 ? TlsUse::kOn
                : tls == "between-clusters" ? TlsUse::kBetweenClusters
                                            : TlsUse::kOff;
  options.certificate = kTlsCertificate.text();
  options.key = kTlsKey.text();
  options.authority = kTlsAuthority.text();
  return options;
}

RdmaOptions RdmaOptions::from_environment() {
  const auto within = [](const Parameter& parameter, std::int64_t least, std::int64_t most) {
    const std::int64_t value = parameter.integer();
    if (value < least || value > most)
      fail(Cause::kInvalidUsage, "{}={}: expected {} to {}", parameter.name, value, least, most);
    return static_cast<int>(value);
  };
  RdmaOptions options;
  options.queue_pairs = within(kRdmaPairs, 1, static_cast<int>(rdma::kMostQueuePairsPerNicPair));
  options.eager_bytes = kRdmaEager.size();
  if (options.eager_bytes > rdma::kMostEager) {
    fail(Cause::kInvalidUsage, "{}={}: expected at most {}", kRdmaEager.name, kRdmaEager.text(),
         format_size(rdma::kMostEager));
  }
  options.gid_index = within(kRdmaGid, -1, 255);
  options.service_level = within(kRdmaServiceLevel, 0, 15);
  options.traffic_class = within(kRdmaTrafficClass, 0, 255);
  options.timeout = within(kRdmaTimeout, 0, 31);
  options.retries = within(kRdmaRetries, 0, 7);
  return options;
}

RouterOptions RouterOptions::from_environment(const topology::ClusterFile* cluster) {
  RouterOptions options;
  options.policy = Policy::from_environment();
  if (cluster != nullptr) {
    options.policy.unreachable = cluster->unreachable;
    options.policy.require_rdma |= cluster->require == "rdma";
  }
  options.tcp = TcpOptions::from_environment();
  options.tls = TlsOptions::from_environment();
  options.shm_fetch = kShmFetch.choice() == "off"      ? shm::Fetch::kNever
                      : kShmFetch.choice() == "always" ? shm::Fetch::kAlways
                                                       : shm::Fetch::kWhereCheaper;
  options.rdma = RdmaOptions::from_environment();
  options.failover = kFailover.choice() == "on";
  for (auto& [nic, rate] : rates_by_nic(kNicLimits)) options.limits.push_back({std::move(nic), rate});
  return options;
}

const std::vector<const Parameter*>& transport_parameters() {
  static const std::vector<const Parameter*> all = [] {
    std::vector<const Parameter*> list{
        &kRequire,          &kTransports,  &kStreams,     &kChunk,     &kIdleTimeout,    &kReplay,
        &kChecksums,        &kCongestion,  &kPacing,      &kTls,       &kTlsCertificate, &kTlsKey,
        &kTlsAuthority,     &kShmFetch,    &kRdmaPairs,   &kRdmaEager, &kRdmaGid,        &kRdmaServiceLevel,
        &kRdmaTrafficClass, &kRdmaTimeout, &kRdmaRetries, &kFailover,  &kNicLimits};
    list.insert(list.end(), report::parameters().begin(), report::parameters().end());
    return list;
  }();
  return all;
}

}  // namespace tombolo::transport
