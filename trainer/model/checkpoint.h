// llm.c's checkpoint format, version 3 (fp32): a header of 256 int32, then every tensor for all layers. The
// bytes are in host order, which is little-endian on every machine on which this runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/model/model.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

inline constexpr std::int32_t kCheckpointMagic = 20240326;
inline constexpr std::int32_t kCheckpointVersion = 3;
inline constexpr std::size_t kCheckpointHeaderBytes = 256 * sizeof(std::int32_t);

/// The shape that the header states. Throws kInvalidUsage when the file cannot be opened, is too short, has
/// the wrong magic, is of another version (naming it), has numbers out of range, or a size that does not
/// match the shape.
Shape read_checkpoint_shape(const std::string& path);

/// Fills a stage's arena (parameters.size() floats). Throws as read_checkpoint_shape() does, and kSystem on a
/// failed read.
void read_checkpoint(const std::string& path, const StageParameters& parameters, std::span<float> arena);

/// Writes all parameters (in checkpoint order) via a temporary file and rename; when it returns they would
/// outlast a power cut. Throws kSystem; leaves no temporary file behind.
void write_checkpoint(const std::string& path, const Shape& shape, std::span<const float> all);

}  // namespace tombolo::trainer
