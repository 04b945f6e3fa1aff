#include "transport/rdma/set_up_message.h"

#include <algorithm>

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport::rdma {
namespace {

constexpr std::uint16_t kSetUpMessageVersion = 2;
constexpr std::size_t kNicWidth = 16, kAddressWidth = 46, kReasonWidth = 400;
constexpr std::size_t kSubnetPrefix = 8;  // bytes of an InfiniBand GID

void write_port(ByteWriter& writer, const PortFacts& port) {
  writer.number(static_cast<std::uint8_t>(port.kind));
  writer.number(static_cast<std::uint8_t>(port.roce_v2));
  writer.number(port.lid);
  writer.number(port.mtu);
  writer.number(port.longest);
  writer.raw(port.gid);
  writer.padded_text(port.nic, kNicWidth);
}

PortFacts read_port(ByteReader& reader) {
  PortFacts port;
  const auto kind = reader.number<std::uint8_t>();
  const auto v2 = reader.number<std::uint8_t>();
  port.lid = reader.number<std::uint16_t>();
  port.mtu = reader.number<std::uint8_t>();
  port.longest = reader.number<std::uint32_t>();
  std::ranges::copy(reader.raw(port.gid.size()), port.gid.begin());
  port.nic = reader.padded_text(kNicWidth);
  if (kind > static_cast<int>(topology::NicKind::kTcp) || v2 > 1 || port.mtu < 1 || port.mtu > 5 ||
      port.longest == 0) {
    fail(
        Cause::kRemote,
        "set-up message describes an impossible port: kind {}, RoCE version byte {}, MTU code {}, longest {}",
        kind, v2, port.mtu, port.longest);
  }
  port.kind = static_cast<topology::NicKind>(kind);
  port.roce_v2 = v2 == 1;
  return port;
}

}  // namespace

std::string why_not_together(const PortFacts& mine, const PortFacts& theirs) {
  if (mine.kind != theirs.kind) {
    return fmt::format("{} is {}, the peer's {} is {}", mine.nic, topology::nic_kind_name(mine.kind),
                       theirs.nic, topology::nic_kind_name(theirs.kind));
  }
  if (mine.kind == topology::NicKind::kInfiniBand) {
    if (!std::equal(mine.gid.begin(), mine.gid.begin() + kSubnetPrefix, theirs.gid.begin()))
      return fmt::format("{} and the peer's {} are on InfiniBand subnets of different prefix", mine.nic,
                         theirs.nic);
    return {};
  }
  if (mine.kind != topology::NicKind::kRoce)
    return fmt::format("no queue pairs over {} in this build", topology::nic_kind_name(mine.kind));
  if (mine.roce_v2 != theirs.roce_v2) {
    return fmt::format("{} would speak RoCE {}, the peer's {} RoCE {}; TOMBOLO_RDMA_GID_INDEX can choose",
                       mine.nic, mine.roce_v2 ? "v2" : "v1", theirs.nic, theirs.roce_v2 ? "v2" : "v1");
  }
  return {};
}

SetUpMessage SetUpMessage::refusal(std::string_view reason) {
  SetUpMessage message;
  message.kind = Kind::kRefusal;
  message.reason = reason.substr(0, kReasonWidth);
  return message;
}

std::vector<std::byte> SetUpMessage::encode() const {
  ByteWriter writer;
  writer.number(kSetUpMessageVersion);
  writer.number(static_cast<std::uint8_t>(kind));
  if (kind == Kind::kRefusal) {
    writer.padded_text(reason, kReasonWidth);
  } else {
    writer.number(queue_pairs_per_nic_pair);
    writer.number(eager_bytes);
    writer.number(area);
    writer.number(token);
    for (bool one : kept) writer.number(static_cast<std::uint8_t>(one));
    writer.number(static_cast<std::uint8_t>(nic_pairs.size()));
    for (const NicPairFacts& nic_pair : nic_pairs) {
      write_port(writer, nic_pair.port);
      writer.padded_text(nic_pair.peer_address, kAddressWidth);
      writer.number(nic_pair.key);
    }
    writer.number(static_cast<std::uint8_t>(queue_pairs.size()));
    for (const QueuePairFacts& pair : queue_pairs) {
      writer.number(pair.number);
      writer.number(pair.first);
    }
  }
  auto bytes = writer.take();
  TOMBOLO_CHECK(bytes.size() <= kBytes, "size={}", bytes.size());
  bytes.resize(kBytes);
  return bytes;
}

SetUpMessage SetUpMessage::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "set-up message of queue pairs");
  if (const auto version = reader.number<std::uint16_t>(); version != kSetUpMessageVersion) {
    fail(Cause::kRemote,
         "set-up message of queue pairs has version {}, this build reads {}: use one version on every host",
         version, kSetUpMessageVersion);
  }
  SetUpMessage message;
  const auto kind = reader.number<std::uint8_t>();
  if (kind < static_cast<int>(Kind::kOffer) || kind > static_cast<int>(Kind::kRefusal))
    fail(Cause::kRemote, "set-up message of queue pairs is of unknown kind {}", kind);
  message.kind = static_cast<Kind>(kind);
  if (message.kind == Kind::kRefusal) {
    message.reason = reader.padded_text(kReasonWidth);
    return message;
  }
  message.queue_pairs_per_nic_pair = reader.number<std::uint8_t>();
  message.eager_bytes = reader.number<std::uint32_t>();
  message.area = reader.number<std::uint64_t>();
  message.token = reader.number<std::uint64_t>();
  for (bool& one : message.kept) one = reader.number<std::uint8_t>() != 0;
  const auto nic_pairs = reader.number<std::uint8_t>();
  if (nic_pairs > kMostNicPairs || message.queue_pairs_per_nic_pair < 1 ||
      message.queue_pairs_per_nic_pair > kMostQueuePairsPerNicPair) {
    fail(Cause::kRemote, "set-up message claims {} NIC pairs of {} queue pairs; at most {} of {} are allowed",
         nic_pairs, message.queue_pairs_per_nic_pair, kMostNicPairs, kMostQueuePairsPerNicPair);
  }
  for (int i = 0; i < nic_pairs; ++i) {
    NicPairFacts nic_pair;
    nic_pair.port = read_port(reader);
    nic_pair.peer_address = reader.padded_text(kAddressWidth);
    nic_pair.key = reader.number<std::uint32_t>();
    message.nic_pairs.push_back(std::move(nic_pair));
  }
  const auto pairs = reader.number<std::uint8_t>();
  if (pairs > kMostQueuePairs)
    fail(Cause::kRemote, "set-up message claims {} queue pairs, at most {} are allowed", pairs,
         kMostQueuePairs);
  for (int i = 0; i < pairs; ++i) {
    QueuePairFacts pair;
    pair.number = reader.number<std::uint32_t>();
    pair.first = reader.number<std::uint32_t>();
    if (pair.number > k24Bits || pair.first > k24Bits)
      fail(Cause::kRemote, "set-up message names queue pair {} starting at {}: both have 24 bits",
           pair.number, pair.first);
    message.queue_pairs.push_back(pair);
  }
  return message;
}

}  // namespace tombolo::transport::rdma
