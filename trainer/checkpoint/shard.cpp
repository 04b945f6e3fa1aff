#include "trainer/checkpoint/shard.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/json.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr std::string_view kMagic = "tmbshard";
constexpr std::size_t kPrefixBytes = 32;
constexpr std::size_t kSealedBytes = 28;
constexpr std::size_t kDataAlignment = 64;
// A piece takes some 40 characters and a chunk 12: this is beyond any model that Shape::check() admits.
constexpr std::size_t kMostDescription = std::size_t{256} << 20;

struct Prefix {
  std::uint32_t version = kShardVersion;
  std::uint32_t description = 0;
  std::uint64_t data = 0;
  std::uint32_t checksum = 0;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename Number>
void store(std::string& into, std::size_t at, Number number) {
  std::memcpy(into.data() + at, &number, sizeof number);
}

template <typename Number>
Number load(std::string_view from, std::size_t at) {
  Number number;
  std::memcpy(&number, from.data() + at, sizeof number);
  return number;
}

std::string encode(const Prefix& prefix) {
  std::string text(kPrefixBytes, '\0');
  std::ranges::copy(kMagic, text.begin());
  store(text, 8, prefix.version);
  store(text, 12, prefix.description);
  store(text, 16, prefix.data);
  store(text, 24, prefix.checksum);
  store(text, kSealedBytes, crc32c(bytes_of(text).first(kSealedBytes)));
  return text;
}

[[noreturn]] void refuse(const std::string& why) {
  fail(Cause::kInvalidUsage, "{}", why);
}

Prefix parse_prefix(std::string_view text) {
  if (text.size() < kPrefixBytes)
    refuse(fmt::format("{} bytes are too few for the {} that a shard begins with: cut short?", text.size(),
                       kPrefixBytes));
  if (!text.starts_with(kMagic)) refuse("it does not begin as a shard does: another kind of file?");
  Prefix prefix;
  prefix.version = load<std::uint32_t>(text, 8);
  if (prefix.version != kShardVersion)
    refuse(fmt::format("version {}, but this build reads version {}", prefix.version, kShardVersion));
  if (load<std::uint32_t>(text, kSealedBytes) != crc32c(bytes_of(text).first(kSealedBytes)))
    refuse("the checksum of its first bytes does not fit: damaged");
  prefix.description = load<std::uint32_t>(text, 12);
  prefix.data = load<std::uint64_t>(text, 16);
  prefix.checksum = load<std::uint32_t>(text, 24);
  if (prefix.description > kMostDescription)
    refuse(fmt::format("a description of {} bytes: damaged", prefix.description));
  return prefix;
}

Json describe(const ShardHeader& header) {
  Json pieces = Json::array();
  for (const ShardPiece& piece : header.pieces)
    pieces.push_back({state_name(piece.state), piece.position, piece.elements, piece.offset});
  const Shape& shape = header.shape;
  return {{"attempt", attempt_text(header.id.attempt)},
          {"step", header.id.step},
          {"generation", header.generation},
          {"rank", header.shard.rank},
          {"ranks", header.shard.ranks},
          {"whole_before", header.whole_before},
          {"model",
           {{"context", shape.context},
            {"vocabulary", shape.vocabulary},
            {"padded_vocabulary", shape.padded_vocabulary},
            {"layers", shape.layers},
            {"heads", shape.heads},
            {"width", shape.width},
            {"parameters", parameter_count(shape)}}},
          {"data_position", Json::parse(header.data_position)},
          {"settings", Json::parse(header.settings)},
          {"pieces", std::move(pieces)},
          {"chunk_floats", header.chunk_floats},
          {"checksums", header.checksums}};
}

StageState parse_state(const std::string& name) {
  for (const StageState state : kStageStates)
    if (state_name(state) == name) return state;
  refuse(fmt::format("it holds \"{}\", which this build does not know", name));
}

Shape parse_shape(const Json& model) {
  Shape shape;
  shape.context = model.at("context").get<int>();
  shape.vocabulary = model.at("vocabulary").get<int>();
  shape.padded_vocabulary = model.at("padded_vocabulary").get<int>();
  shape.layers = model.at("layers").get<int>();
  shape.heads = model.at("heads").get<int>();
  shape.width = model.at("width").get<int>();
  shape.check();
  const auto stated = model.at("parameters").get<std::size_t>();
  if (stated != parameter_count(shape))
    refuse(fmt::format("{} parameters, but {} has {}", stated, shape.text(), parameter_count(shape)));
  return shape;
}

ShardHeader parse_description(const Json& json) {
  ShardHeader header;
  header.shape = parse_shape(json.at("model"));
  header.shard = {json.at("rank").get<int>(), json.at("ranks").get<int>()};
  header.id.step = json.at("step").get<std::int64_t>();
  // The same spelling as in the folder's name.
  const auto id =
      parse_folder_name(fmt::format("step-{:08}-{}", header.id.step, json.at("attempt").get<std::string>()));
  if (!id) refuse("step or attempt are none");
  header.id = *id;
  header.generation = json.at("generation").get<std::int64_t>();
  header.whole_before = json.at("whole_before").get<bool>();
  header.data_position = json.at("data_position").dump();
  if (json.contains("settings")) header.settings = json.at("settings").dump();
  header.chunk_floats = json.at("chunk_floats").get<std::size_t>();
  header.checksums = json.at("checksums").get<std::vector<std::uint32_t>>();
  const std::size_t parameters = parameter_count(header.shape);
  std::size_t next = 0;
  for (const Json& entry : json.at("pieces")) {
    const ShardPiece piece{parse_state(entry.at(0).get<std::string>()), entry.at(1).get<std::size_t>(),
                           entry.at(2).get<std::size_t>(), entry.at(3).get<std::size_t>()};
    if (piece.position > parameters || piece.elements > parameters - piece.position || piece.offset != next)
      refuse(
          fmt::format("a piece of {} elements from {} on at {}, but there are {} parameters and the piece "
                      "before ends at {}",
                      piece.elements, piece.position, piece.offset, parameters, next));
    next += piece.elements;
    header.pieces.push_back(piece);
  }
  // An upper limit, so that no reader takes what a damaged figure says for the size of a buffer.
  if (header.chunk_floats == 0 || header.chunk_floats > 64 * kShardChunkFloats)
    refuse(fmt::format("chunks of {} floats", header.chunk_floats));
  const std::size_t chunks = (next + header.chunk_floats - 1) / header.chunk_floats;
  if (chunks != header.checksums.size())
    refuse(fmt::format("{} checksums for {} chunks", header.checksums.size(), chunks));
  return header;
}

Descriptor open_to_read(FileSystem& files, const std::string& path) {
  int descriptor = -1;
  if (const int error = files.open(path, descriptor); error != 0)
    refuse(fmt::format("cannot be opened: {}", errno_text(error)));
  return Descriptor(descriptor);
}

void read_at(const Descriptor& file, std::size_t position, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(fmt::format("reading at byte {}: {}", position, errno_text(errno)));
    if (got == 0) refuse(fmt::format("ends at byte {}: cut short", position));
    position += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

std::size_t ShardHeader::floats() const noexcept {
  return pieces.empty() ? 0 : pieces.back().offset + pieces.back().elements;
}

std::string_view state_name(StageState state) noexcept {
  switch (state) {
    case StageState::kParameters:
      return "parameters";
    case StageState::kFirstMoment:
      return "first moment";
    case StageState::kSecondMoment:
      return "second moment";
  }
  return "?";
}

std::string encode_shard_head(const ShardHeader& header) {
  std::string description = describe(header).dump();
  const std::size_t end = kPrefixBytes + description.size() + 1;
  description.append((end + kDataAlignment - 1) / kDataAlignment * kDataAlignment - end, ' ');
  description.push_back('\n');
  Prefix prefix;
  prefix.description = static_cast<std::uint32_t>(description.size());
  prefix.data = header.floats() * sizeof(float);
  prefix.checksum = crc32c(bytes_of(description));
  return encode(prefix) + description;
}

std::vector<std::uint32_t> chunk_checksums(std::span<const float> data, std::size_t chunk_floats) {
  std::vector<std::uint32_t> checksums;
  for (; !data.empty(); data = data.subspan(std::min(chunk_floats, data.size())))
    checksums.push_back(crc32c(std::as_bytes(data.first(std::min(chunk_floats, data.size())))));
  return checksums;
}

ShardHeader parse_shard_head(std::string_view head) {
  const Prefix prefix = parse_prefix(head);
  const std::string_view description = head.substr(kPrefixBytes);
  if (description.size() != prefix.description)
    refuse(fmt::format("a description of {} bytes, but {} are there: cut short?", prefix.description,
                       description.size()));
  if (crc32c(bytes_of(description)) != prefix.checksum)
    refuse("the checksum of its description does not fit: damaged");
  ShardHeader header;
  try {
    // By its depth a description must not exhaust the stack of what writes a part of it again.
    header = parse_description(JsonDocument::parse(description, "its description").root().raw());
  } catch (const Json::exception& error) {
    refuse(fmt::format("its description is not as it should be: {}", error.what()));
  }
  if (header.floats() * sizeof(float) != prefix.data)
    refuse(fmt::format("{} bytes of data, but its pieces take {}", prefix.data,
                       header.floats() * sizeof(float)));
  return header;
}

std::size_t floats_of_chunk(const ShardHeader& header, std::size_t chunk) noexcept {
  return std::min(header.chunk_floats, header.floats() - chunk * header.chunk_floats);
}

std::string wrong_chunk(const ShardHeader& header, std::size_t chunk, std::span<const float> data) {
  const std::uint32_t found = crc32c(std::as_bytes(data));
  if (found == header.checksums[chunk]) return {};
  return fmt::format("the checksum of chunk {} of {} does not fit ({:08x}, not {:08x}): damaged", chunk,
                     header.checksums.size(), found, header.checksums[chunk]);
}

ShardFile::ShardFile(std::string path, FileSystem& files) : path_(std::move(path)), files_(&files) {
  try {
    const Descriptor file = open_to_read(files, path_);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) refuse("not a regular file");
    const auto size = static_cast<std::size_t>(status.st_size);
    head_.resize(std::min(size, kPrefixBytes));
    read_at(file, 0, std::as_writable_bytes(std::span(head_)));
    const Prefix prefix = parse_prefix(head_);
    const std::size_t head = kPrefixBytes + prefix.description;
    if (size < head || size - head != prefix.data)
      refuse(fmt::format("{} bytes, but {} + {} were written: {}", size, head, prefix.data,
                         size < head || size - head < prefix.data ? "cut short" : "too long"));
    head_.resize(head);
    read_at(file, kPrefixBytes, std::as_writable_bytes(std::span(head_)).subspan(kPrefixBytes));
    header_ = parse_shard_head(head_);
  } catch (const Error& error) {
    fail(Cause::kInvalidUsage, "{}: {}", path_, error.what());
  }
}

void ShardFile::read_chunk(std::size_t chunk, std::span<float> to) {
  TOMBOLO_CHECK(to.size() == floats_of_chunk(header_, chunk), "chunk={} given={}", chunk, to.size());
  std::string wrong;
  try {
    if (!file_) file_ = open_to_read(*files_, path_);
    read_at(file_, head_.size() + chunk * header_.chunk_floats * sizeof(float), std::as_writable_bytes(to));
    wrong = wrong_chunk(header_, chunk, to);
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (!wrong.empty()) fail(Cause::kInvalidUsage, "{}: {}", path_, wrong);
}

}  // namespace tombolo::trainer
