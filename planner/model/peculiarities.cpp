#include "planner/model/peculiarities.h"

#include <algorithm>
#include <array>

namespace tombolo::planner {

namespace {

constexpr std::array kPeculiarities{
    PeculiarityTraits{Peculiarity::kParallelMlp, "parallel_mlp", "layers whose MLP stands beside attention"},
    PeculiarityTraits{Peculiarity::kSharedNorm, "shared_norm", "layers with one norm for attention and MLP"},
    PeculiarityTraits{Peculiarity::kRelu, "relu", "MLPs through ReLU"},
    PeculiarityTraits{Peculiarity::kLayerNorm, "layer_norm", "LayerNorm with biases beside matrices without"},
    PeculiarityTraits{Peculiarity::kBareLayerNorm, "bare_layer_norm", "LayerNorm without biases"},
    PeculiarityTraits{Peculiarity::kBareQkv, "bare_qkv",
                      "queries, keys and values without biases beside other matrices with them"},
    PeculiarityTraits{Peculiarity::kBareAttention, "bare_attention",
                      "attention without biases beside MLPs with them"},
    PeculiarityTraits{Peculiarity::kUnscaledScores, "unscaled_scores", "attention of unscaled scores"},
    PeculiarityTraits{Peculiarity::kLocalLayers, "local_layers", "windows in every second layer alone"},
    PeculiarityTraits{Peculiarity::kScaledEmbedding, "scaled_embedding",
                      "embeddings that are multiplied by the root of the width"},
    PeculiarityTraits{Peculiarity::kEmbeddingNorm, "embedding_norm", "embeddings that go through a norm"},
    PeculiarityTraits{Peculiarity::kHeadBiases, "head_biases", "biases of the output projection"},
    PeculiarityTraits{Peculiarity::kPostNorm, "post_norm", "norms after attention and MLP, not before"},
    PeculiarityTraits{Peculiarity::kNarrowEmbedding, "narrow_embedding",
                      "embeddings that are narrower than the layers"},
    PeculiarityTraits{Peculiarity::kScoreCaps, "score_caps", "caps of attention's scores and of the logits"}};

}  // namespace

std::span<const PeculiarityTraits> all_peculiarities() noexcept {
  return kPeculiarities;
}

std::optional<Peculiarity> peculiarity_from_name(std::string_view name) noexcept {
  const auto found = std::ranges::find(kPeculiarities, name, &PeculiarityTraits::name);
  if (found == kPeculiarities.end()) return std::nullopt;
  return found->peculiarity;
}

}  // namespace tombolo::planner
