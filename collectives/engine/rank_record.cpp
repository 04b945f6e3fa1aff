#include "collectives/engine/rank_record.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::collectives {
namespace {

// Layout, little-endian: u32 magic, u8 version, texts host, cluster, token, u8 number of settings, their
// texts, i64 process, i32 memory, i32 doorbell, u64 token of the host's memory, u8 bytes of the set of
// processors (without zeros at its end), the set (processor p is bit p % 8 of byte p / 8), u64 links,
// text and u16 address and port of the store on standby, 16 bytes of which store that is, u8 whether the rank
// keeps the store, u16 length of the endpoint, endpoint.
constexpr std::uint32_t kRecordMagic = 0x524b4d54;  // "TMKR", read as text
constexpr std::uint8_t kRecordVersion = 9;  // also of what ranks of one host say to each other in RankMemory
constexpr std::size_t kMostRecordSettings = 16;
constexpr std::size_t kMostProcessorBytes = compute::ProcessorSet().size() / 8;

void write_processors(transport::ByteWriter& writer, const compute::ProcessorSet& processors) {
  std::array<std::byte, kMostProcessorBytes> bytes{};
  std::size_t length = 0;
  for (std::size_t one = 0; one < processors.size(); ++one) {
    if (!processors[one]) continue;
    bytes[one / 8] |= std::byte{1} << one % 8;
    length = one / 8 + 1;
  }
  writer.number(static_cast<std::uint8_t>(length));
  writer.raw(std::span(bytes).first(length));
}

compute::ProcessorSet read_processors(transport::ByteReader& reader) {
  const std::size_t length = reader.number<std::uint8_t>();
  if (length > kMostProcessorBytes)
    fail(Cause::kRemote, "{} bytes of a set of processors, at most {}", length, kMostProcessorBytes);
  const auto bytes = reader.raw(length);
  compute::ProcessorSet processors;
  for (std::size_t one = 0; one < length * 8; ++one)
    processors[one] = (bytes[one / 8] >> one % 8 & std::byte{1}) != std::byte{0};
  return processors;
}

RankRecord read_record(std::span<const std::byte> bytes) {
  transport::ByteReader reader(bytes, "the record");
  const auto magic = reader.number<std::uint32_t>();
  const auto version = magic == kRecordMagic ? reader.number<std::uint8_t>() : 0;
  if (version != kRecordVersion) {
    fail(Cause::kRemote, "it is not of this version; use one build of Tombolo on every host");
  }
  RankRecord record;
  record.host = reader.text();
  record.cluster = reader.text();
  record.token = reader.text();
  const auto settings = reader.number<std::uint8_t>();
  if (settings > kMostRecordSettings)
    fail(Cause::kRemote, "{} settings, at most {}", settings, kMostRecordSettings);
  for (int i = 0; i < settings; ++i) {
    std::string name = reader.text();
    record.settings.emplace_back(std::move(name), reader.text());
  }
  record.memory.process = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  record.memory.memory = static_cast<std::int32_t>(reader.number<std::uint32_t>());
  record.memory.doorbell = static_cast<std::int32_t>(reader.number<std::uint32_t>());
  record.memory.token = reader.number<std::uint64_t>();
  record.processors = read_processors(reader);
  record.links = reader.number<std::uint64_t>();
  record.standby.address = reader.text();
  record.standby.port = reader.number<std::uint16_t>();
  std::ranges::copy(reader.raw(record.standby.id.size()), record.standby.id.begin());
  record.keeps_store = reader.number<std::uint8_t>() != 0;
  record.endpoint = transport::Endpoint::decode(reader.raw(reader.number<std::uint16_t>()));
  if (reader.remaining() != 0) fail(Cause::kRemote, "it is followed by {} more bytes", reader.remaining());
  return record;
}

}  // namespace

std::vector<std::byte> RankRecord::encode() const {
  TOMBOLO_CHECK(settings.size() <= kMostRecordSettings, "settings={}", settings.size());
  transport::ByteWriter writer;
  writer.number(kRecordMagic);
  writer.number(kRecordVersion);
  writer.text(host);
  writer.text(cluster);
  writer.text(token);
  writer.number(static_cast<std::uint8_t>(settings.size()));
  for (const auto& [name, value] : settings) {
    writer.text(name);
    writer.text(value);
  }
  writer.number(static_cast<std::uint64_t>(memory.process));
  writer.number(static_cast<std::uint32_t>(memory.memory));
  writer.number(static_cast<std::uint32_t>(memory.doorbell));
  writer.number(memory.token);
  write_processors(writer, processors);
  writer.number(links);
  writer.text(standby.address);
  writer.number(standby.port);
  writer.raw(standby.id);
  writer.number(static_cast<std::uint8_t>(keeps_store ? 1 : 0));
  const auto encoded = endpoint.encode();
  TOMBOLO_CHECK(encoded.size() <= UINT16_MAX, "endpoint of {} bytes", encoded.size());
  writer.number(static_cast<std::uint16_t>(encoded.size()));
  writer.raw(encoded);
  return writer.take();
}

RankRecord RankRecord::decode(std::span<const std::byte> bytes, int rank) {
  try {
    return read_record(bytes);
  } catch (const Error& error) {
    fail(Cause::kRemote, "rank {} published a record that this build does not read: {}", rank, error.what());
  }
}

}  // namespace tombolo::collectives
