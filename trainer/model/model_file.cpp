#include "trainer/model/model_file.h"

#include <algorithm>

#include "trainer/model/checkpoint.h"
#include "trainer/model/hugging_face.h"

namespace tombolo::trainer {

Shape read_model_shape(const std::string& path) {
  return is_hugging_face(path) ? read_hugging_face_shape(path) : read_checkpoint_shape(path);
}

void read_model(const std::string& path, const StageParameters& parameters, std::span<float> arena) {
  if (is_hugging_face(path))
    read_hugging_face(path, parameters, arena);
  else
    read_checkpoint(path, parameters, arena);
}

std::vector<float> read_whole_model(const std::string& path, const Shape& shape) {
  const StageParameters layout(shape, 0, shape.layers);
  std::vector<float> arena(layout.size());
  read_model(path, layout, arena);
  std::vector<float> all(parameter_count(shape));
  for (const Slice& slice : layout.slices())
    std::ranges::copy(std::span(arena).subspan(slice.offset, slice.elements),
                      all.begin() + static_cast<std::ptrdiff_t>(slice.position));
  return all;
}

void write_model(const std::string& path, const Shape& shape, std::span<const float> all, ValueType type) {
  if (path.ends_with(".safetensors"))
    write_hugging_face(path, shape, all, type);
  else
    write_checkpoint(path, shape, all, type);
}

}  // namespace tombolo::trainer
