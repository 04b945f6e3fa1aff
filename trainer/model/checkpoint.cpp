#include "trainer/model/checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/error.h"
#include "trainer/model/input_file.h"
#include "trainer/model/output_file.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

using Header = std::array<std::int32_t, 256>;

struct Content {
  Shape shape;
  ValueType type;
};

Content read_header(const InputFile& file) {
  Header header{};
  if (file.size() < kCheckpointHeaderBytes)
    fail(Cause::kInvalidUsage, "{}: {} bytes are too few for a header of {}", file.name(), file.size(),
         kCheckpointHeaderBytes);
  file.read(0, std::as_writable_bytes(std::span(header)));
  if (header[0] != kCheckpointMagic)
    fail(Cause::kInvalidUsage, "{}: magic number {}, but a checkpoint of llm.c's format starts with {}",
         file.name(), header[0], kCheckpointMagic);
  if (header[1] != kCheckpointVersion && header[1] != kCheckpointBfloat16Version)
    fail(Cause::kInvalidUsage, "{}: version {}; this build reads versions {} (fp32) and {} (bf16)",
         file.name(), header[1], kCheckpointVersion, kCheckpointBfloat16Version);
  Content content{};
  content.type = header[1] == kCheckpointVersion ? ValueType::kFloat32 : ValueType::kBfloat16;
  Shape& shape = content.shape;
  shape.context = header[2];
  shape.vocabulary = header[3];
  shape.layers = header[4];
  shape.heads = header[5];
  shape.width = header[6];
  shape.padded_vocabulary = header[7];
  try {
    shape.check();
  } catch (const Error& error) {
    fail(Cause::kInvalidUsage, "{}: {}", file.name(), error.what());
  }
  const std::uint64_t expected = kCheckpointHeaderBytes + parameter_count(shape) * value_bytes(content.type);
  if (file.size() != expected)
    fail(Cause::kInvalidUsage, "{}: {} bytes, but {} (padded to {}) takes {} in {}: {}", file.name(),
         file.size(), shape.text(), shape.padded_vocabulary, expected, value_type_name(content.type),
         file.size() < expected ? "cut short?" : "not this format?");
  return content;
}

}  // namespace

Shape read_checkpoint_shape(const std::string& path) {
  return read_header(InputFile("checkpoint", path)).shape;
}

void read_checkpoint(const std::string& path, const StageParameters& parameters, std::span<float> arena) {
  const InputFile file("checkpoint", path);
  const ValueType type = read_header(file).type;
  std::vector<std::byte> raw;
  for (const Slice& slice : parameters.slices())
    for (std::size_t done = 0; done < slice.elements; done += kValuesAtOnce) {
      const std::size_t count = std::min(kValuesAtOnce, slice.elements - done);
      raw.resize(count * value_bytes(type));
      file.read(kCheckpointHeaderBytes + (slice.position + done) * value_bytes(type), raw);
      decode_values(type, raw, arena.subspan(slice.offset + done, count));
    }
}

void write_checkpoint(const std::string& path, const Shape& shape, std::span<const float> all,
                      ValueType type) {
  TOMBOLO_CHECK(all.size() == parameter_count(shape), "given={} expected={}", all.size(),
                parameter_count(shape));
  TOMBOLO_CHECK(type != ValueType::kFloat16);
  Header header{};
  header[0] = kCheckpointMagic;
  header[1] = type == ValueType::kFloat32 ? kCheckpointVersion : kCheckpointBfloat16Version;
  header[2] = shape.context;
  header[3] = shape.vocabulary;
  header[4] = shape.layers;
  header[5] = shape.heads;
  header[6] = shape.width;
  header[7] = shape.padded_vocabulary;
  OutputFile file("checkpoint", path);
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::byte> raw;
  for (std::size_t done = 0; done < all.size(); done += kValuesAtOnce) {
    const std::size_t count = std::min(kValuesAtOnce, all.size() - done);
    raw.resize(count * value_bytes(type));
    encode_values(type, all.subspan(done, count), raw);
    file.write(raw);
  }
  file.commit();
}

}  // namespace tombolo::trainer
