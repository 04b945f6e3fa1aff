#include "trainer/model/stage_parameters.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

// The alignment is 64 bytes, which is a cache line and the widest vector.
constexpr std::size_t kAlignment = 16;

constexpr Tensor kLayerTensors[] = {Tensor::kNorm1Weight,
                                    Tensor::kNorm1Bias,
                                    Tensor::kQkvWeight,
                                    Tensor::kQkvBias,
                                    Tensor::kAttentionProjectionWeight,
                                    Tensor::kAttentionProjectionBias,
                                    Tensor::kNorm2Weight,
                                    Tensor::kNorm2Bias,
                                    Tensor::kMlpWeight,
                                    Tensor::kMlpBias,
                                    Tensor::kMlpProjectionWeight,
                                    Tensor::kMlpProjectionBias};

}  // namespace

StageParameters::StageParameters(const Shape& shape, int first_layer, int layers)
    : first_layer_(first_layer),
      layers_(layers),
      first_(first_layer == 0),
      last_(first_layer + layers == shape.layers) {
  auto add = [&](Tensor tensor, int layer) {
    const std::size_t elements = tensor_elements(shape, tensor);
    slices_.push_back({tensor, layer, size_, elements, tensor_position(shape, tensor, std::max(layer, 0))});
    size_ += (elements + kAlignment - 1) / kAlignment * kAlignment;
  };
  if (first_) {
    add(Tensor::kTokenEmbedding, -1);
    add(Tensor::kPositionEmbedding, -1);
  }
  for (int layer = first_layer; layer < first_layer + layers; ++layer)
    for (Tensor tensor : kLayerTensors) add(tensor, layer);
  if (last_) {
    add(Tensor::kFinalNormWeight, -1);
    add(Tensor::kFinalNormBias, -1);
    if (!first_) add(Tensor::kTokenEmbedding, -1);
  }
}

const Slice& StageParameters::find(Tensor tensor, int layer) const {
  for (const Slice& slice : slices_)
    if (slice.tensor == tensor && slice.layer == layer) return slice;
  fail(Cause::kInternal, "this stage holds no {} of layer {}", tensor_info(tensor).name, layer);
}

std::size_t StageParameters::layer_begin(int layer) const {
  return find(Tensor::kNorm1Weight, layer).offset;
}

std::vector<Bucket> gradient_buckets(const StageParameters& parameters, std::size_t smallest_bytes) {
  std::vector<std::size_t> borders;  // descending
  for (int layer = parameters.first_layer() + parameters.layers() - 1; layer >= parameters.first_layer();
       --layer)
    borders.push_back(parameters.layer_begin(layer));
  if (parameters.first()) borders.push_back(0);
  std::vector<Bucket> buckets;
  std::size_t end = parameters.size();
  for (std::size_t index = 0; index < borders.size(); ++index) {
    const bool final_border = index + 1 == borders.size();
    if ((end - borders[index]) * sizeof(float) < smallest_bytes && !final_border) continue;
    buckets.push_back({borders[index], end});
    end = borders[index];
  }
  return buckets;
}

}  // namespace tombolo::trainer
