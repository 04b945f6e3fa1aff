#include "transport/bootstrap/handshake.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::transport::bootstrap {
namespace {

constexpr std::uint32_t kMagic = 0x4f424d54;  // "TMBO" in the bytes' order
constexpr std::size_t kHostWidth = 64, kNicWidth = 32;

void write_preamble(ByteWriter& writer, std::size_t size) {
  writer.number(kMagic);
  writer.number(kProtocolVersion);
  writer.number(static_cast<std::uint16_t>(size));
}

std::vector<std::byte> padded(ByteWriter& writer, std::size_t size) {
  TOMBOLO_CHECK(writer.size() <= size, "fields={} message={}", writer.size(), size);
  auto bytes = writer.take();
  bytes.resize(size);
  return bytes;
}

Nonce read_nonce(ByteReader& reader) {
  Nonce nonce;
  std::ranges::copy(reader.raw(nonce.size()), nonce.begin());
  return nonce;
}

Mac read_mac(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Mac))
    fail(Cause::kRemote, "handshake message of {} bytes has no MAC", bytes.size());
  Mac mac;
  std::ranges::copy(bytes.last(mac.size()), mac.begin());
  return mac;
}

/// The MACs of the two ends cover distinct prefixes, so that one can never serve as the other.
Mac mac_of(const Secret& secret, std::string_view who, std::span<const std::byte> hello,
           std::span<const std::byte> challenge, std::span<const std::byte> reply,
           std::span<const std::byte> binding) {
  ByteWriter message;
  message.text(who);
  message.raw(hello);
  message.raw(challenge);
  message.raw(reply);
  message.raw(binding);
  return authenticate(secret, message.view());
}

}  // namespace

std::optional<Preamble> Preamble::decode(std::span<const std::byte, kBytes> bytes) noexcept {
  if (load_little_endian<std::uint32_t>(&bytes[0]) != kMagic) return std::nullopt;
  Preamble preamble;
  preamble.version = load_little_endian<std::uint16_t>(&bytes[4]);
  preamble.size = load_little_endian<std::uint16_t>(&bytes[6]);
  return preamble;
}

std::string other_version(std::string_view who, std::uint16_t version) {
  return fmt::format(
      "{} speaks protocol version {}, this build {} and no other; use one version on every host", who,
      version, kProtocolVersion);
}

std::vector<std::byte> Hello::encode() const {
  ByteWriter writer;
  write_preamble(writer, kBytes);
  writer.raw(connection);
  writer.raw(nonce);
  writer.number(process);
  writer.number(sender);
  writer.number(stream);
  writer.number(streams);
  writer.number(label);
  writer.number(static_cast<std::uint8_t>(kind));
  writer.number(static_cast<std::uint8_t>(emulated));
  writer.number(static_cast<std::uint8_t>(carrier));
  writer.number(patience_ms);
  writer.number(static_cast<std::uint8_t>(purpose));
  writer.number(listener);
  writer.number(epoch);
  writer.number(cluster);
  writer.number(reply_port);
  writer.padded_text(host, kHostWidth);
  writer.padded_text(nic, kNicWidth);
  writer.number(static_cast<std::uint8_t>(resumable));
  return padded(writer, kBytes);
}

Hello Hello::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "handshake hello");
  reader.raw(Preamble::kBytes);
  Hello hello;
  hello.connection = read_nonce(reader);
  hello.nonce = read_nonce(reader);
  hello.process = reader.number<std::uint64_t>();
  hello.sender = reader.number<std::uint64_t>();
  hello.stream = reader.number<std::uint16_t>();
  hello.streams = reader.number<std::uint16_t>();
  hello.label = reader.number<std::uint64_t>();
  auto kind = reader.number<std::uint8_t>();
  hello.emulated = reader.number<std::uint8_t>() != 0;
  auto carrier = reader.number<std::uint8_t>();
  hello.patience_ms = reader.number<std::uint32_t>();
  auto purpose = reader.number<std::uint8_t>();
  hello.listener = reader.number<std::uint32_t>();
  hello.epoch = reader.number<std::uint32_t>();
  hello.cluster = reader.number<std::uint32_t>();
  hello.reply_port = reader.number<std::uint16_t>();
  hello.host = reader.padded_text(kHostWidth);
  hello.nic = reader.padded_text(kNicWidth);
  hello.resumable = reader.number<std::uint8_t>() != 0;
  if (hello.streams == 0 || hello.streams > Hello::kMostStreams || hello.stream >= hello.streams) {
    fail(Cause::kRemote, "hello claims stream {} of {} (at most {} are allowed)", hello.stream, hello.streams,
         Hello::kMostStreams);
  }
  if (kind > static_cast<std::uint8_t>(topology::NicKind::kTcp)) {
    fail(Cause::kRemote, "hello names unknown NIC kind {}", kind);
  }
  // A carrier that this build does not have is refused as one that this process cannot use.
  if (carrier >= kMostCarriers) {
    fail(Cause::kRemote, "hello names unknown carrier {}", carrier);
  }
  if (purpose > static_cast<std::uint8_t>(Purpose::kAsk)) {
    fail(Cause::kRemote, "hello names unknown purpose {}", purpose);
  }
  hello.purpose = static_cast<Purpose>(purpose);
  hello.kind = static_cast<topology::NicKind>(kind);
  hello.carrier = static_cast<Carrier>(carrier);
  if (hello.carrier != Carrier::kTcp && hello.streams != 1) {
    fail(Cause::kRemote, "hello claims {} streams to agree on {}", hello.streams,
         carrier_name(hello.carrier));
  }
  return hello;
}

std::vector<std::byte> Challenge::encode() const {
  ByteWriter writer;
  write_preamble(writer, kBytes);
  writer.number(static_cast<std::uint8_t>(status));
  writer.raw(nonce);
  return padded(writer, kBytes);
}

Challenge Challenge::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "handshake challenge");
  reader.raw(Preamble::kBytes);
  Challenge challenge;
  challenge.status = static_cast<HandshakeStatus>(reader.number<std::uint8_t>());
  challenge.nonce = read_nonce(reader);
  return challenge;
}

Proof Proof::decode(std::span<const std::byte> bytes) {
  return {read_mac(bytes)};
}

std::vector<std::byte> Reply::encode() const {
  ByteWriter writer;
  write_preamble(writer, kBytes);
  writer.number(static_cast<std::uint8_t>(status));
  writer.padded_text(host, kHostWidth);
  writer.padded_text(nic, kNicWidth);
  writer.number(static_cast<std::uint8_t>(resumable));
  writer.number(legs_listener);
  auto bytes = padded(writer, kBytes);
  std::ranges::copy(mac, bytes.end() - static_cast<std::ptrdiff_t>(mac.size()));
  return bytes;
}

Reply Reply::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "handshake reply");
  reader.raw(Preamble::kBytes);
  Reply reply;
  reply.status = static_cast<HandshakeStatus>(reader.number<std::uint8_t>());
  reply.host = reader.padded_text(kHostWidth);
  reply.nic = reader.padded_text(kNicWidth);
  reply.resumable = reader.number<std::uint8_t>() != 0;
  reply.legs_listener = reader.number<std::uint32_t>();
  reply.mac = read_mac(bytes);
  return reply;
}

Mac proof_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> challenge,
              std::span<const std::byte> binding) {
  return mac_of(secret, "connecting end", hello, challenge, {}, binding);
}

Mac reply_mac(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> challenge,
              std::span<const std::byte> reply, std::span<const std::byte> binding) {
  return mac_of(secret, "accepting end", hello, challenge, reply.first(Reply::kBytes - sizeof(Mac)), binding);
}

}  // namespace tombolo::transport::bootstrap
