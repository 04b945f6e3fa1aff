// llm.c's checkpoint format, versions 3 (fp32) and 5 (bf16): a header of 256 int32, then every tensor for all
// layers. Host byte order, which is little-endian on every machine this runs on.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/model/model.h"
#include "trainer/model/stage_parameters.h"
#include "trainer/model/value_type.h"

namespace tombolo::trainer {

inline constexpr std::int32_t kCheckpointMagic = 20240326;
inline constexpr std::int32_t kCheckpointVersion = 3;          ///< of fp32
inline constexpr std::int32_t kCheckpointBfloat16Version = 5;  ///< of bf16
inline constexpr std::size_t kCheckpointHeaderBytes = 256 * sizeof(std::int32_t);

/// The shape that the header states. Throws kInvalidUsage: cannot be opened, too short, wrong magic, another
/// version, numbers out of range, or a size that does not fit the shape.
Shape read_checkpoint_shape(const std::string& path);

/// Fills a stage's arena (parameters.size() floats). Throws as read_checkpoint_shape() does, and kSystem on a
/// failed read.
void read_checkpoint(const std::string& path, const StageParameters& parameters, std::span<float> arena);

/// Writes all parameters (in checkpoint order) via a temporary file and rename; when it returns they
/// would outlast a power cut. `type` is kFloat32 or kBfloat16. Throws kSystem; leaves no temporary file
/// behind.
void write_checkpoint(const std::string& path, const Shape& shape, std::span<const float> all,
                      ValueType type = ValueType::kFloat32);

}  // namespace tombolo::trainer
