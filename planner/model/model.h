// The shape of the model to be trained, in the few numbers that decide time and memory.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "planner/model/peculiarities.h"
#include "planner/model/router.h"

namespace tombolo::planner {

/// What follows attention in a layer.
enum class Mlp {
  kDense,    ///< one MLP that every token takes
  kMixture,  ///< a router that sends each token to some of many experts, each of them an MLP
};

/// A decoder-only transformer: pre-norm, causal attention, one MLP or mixture of experts per layer. The
/// defaults are GPT-2's.
struct Model {
  std::string name;
  int layers = 0;  ///< L
  int hidden = 0;  ///< H
  int heads = 0;
  int context = 0;     ///< S, tokens per row
  int vocabulary = 0;  ///< V
  int bytes_per_value = 4;
  int kv_heads = 0;               ///< heads of keys and values (grouped-query attention); 0 = `heads`
  int feed_forward = 0;           ///< F, the MLP's inner width; 0 = 4 H
  bool gated = false;             ///< the MLP has a third matrix, H x F (SwiGLU)
  bool learned_positions = true;  ///< an S x H table; false: rotary, without parameters
  bool tied_embeddings = true;    ///< the output projection is the token embedding
  bool biases = true;             ///< of the matrices, and of the norms (LayerNorm; without: RMSNorm)
  int head_width = 0;             ///< values per head; 0 = hidden / heads
  double rotary_base = 0;         ///< of rotary positions; 0 = the framework's default
  double rotary_share = 1;        ///< of a head's values, those that rotary positions turn
  bool rotary_pairs = false;      ///< they turn neighbours (GPT-J); false: the halves of what they turn
  double rotary_scaling = 0;      ///< factor of Llama 3.1's scaling of low frequencies; 0 = none
  bool alibi = false;             ///< positions are biases of attention's scores (arXiv 2108.12409)
  bool gelu_gate = false;         ///< of a gated MLP: through GELU (GeGLU); false: through SiLU (SwiGLU)
  bool qkv_biases = false;        ///< of queries, keys and values, where the other matrices have none
  bool query_key_norms = false;   ///< of each head's queries and keys, without biases
  int window = 0;                 ///< tokens up to which attention looks back; 0 = all
  Peculiarities peculiarities = {};
  int experts = 0;              ///< of a mixture; 0: every layer has one MLP, which is dense
  int experts_per_token = 0;    ///< k, to how many of them the router sends each token
  int expert_feed_forward = 0;  ///< inner width of one expert; 0 = inner()
  int shared_feed_forward = 0;  ///< inner width of the expert that every token takes; 0 = none
  int moe_every = 1;    ///< of the layers from dense_first on every so many, the first too, are mixtures
  int dense_first = 0;  ///< so many layers at the beginning are dense
  /// Of multi-head latent attention (arXiv 2405.04434): the width to which keys and values together are
  /// compressed; 0 = attention has matrices of its own for them.
  int kv_rank = 0;
  int query_rank = 0;    ///< there: the width to which queries are compressed; 0 = they are not
  int rotary_width = 0;  ///< there: values of a head's query and key, beside head_width, that positions turn
  int value_width = 0;   ///< there: values of a head's value; 0 = head_width
  Router router = {};    ///< of a mixture
  /// Tokens of the ranks that get most of them, over the mean of all that divide a layer's experts, as
  /// measured; 1 = the router spreads tokens evenly.
  double expert_imbalance = 1;

  bool has(Peculiarity one) const noexcept { return peculiarities.has(one); }
  /// Whether attention does not look back to the beginning of a row.
  bool windowed() const noexcept { return window > 0 && window < context; }
  /// Whether rows of `context` tokens show it: layers with windows are as others where no row is longer.
  bool shows(Peculiarity one) const noexcept {
    return has(one) && (one != Peculiarity::kLocalLayers || windowed());
  }
  int key_value_heads() const noexcept { return kv_heads > 0 ? kv_heads : heads; }
  /// Without overflow, since check() names it.
  int inner() const noexcept {
    constexpr int kMost = std::numeric_limits<int>::max();
    return feed_forward > 0 ? feed_forward : hidden <= kMost / 4 ? 4 * hidden : kMost;
  }
  /// Values per head.
  int head() const noexcept { return head_width > 0 ? head_width : hidden / heads; }
  bool latent() const noexcept { return kv_rank > 0; }
  /// Values per head of queries and keys, and of values.
  int query_head() const noexcept { return head() + rotary_width; }
  int value_head() const noexcept { return value_width > 0 ? value_width : head(); }
  /// A, what all heads put out: attention's core works on so many values. H unless heads have a width of
  /// their own.
  int attention_width() const noexcept { return heads * value_head(); }
  /// The values of a token's queries, of its keys and of its values, as the core takes them.
  int query_width() const noexcept { return heads * query_head(); }
  int keys_values_width() const noexcept { return key_value_heads() * (query_head() + value_head()); }
  /// The values to which a token is compressed before its queries, keys and values are made of them, with
  /// what positions turn of the keys, which all heads share; 0 without latent attention.
  int compressed_width() const noexcept { return latent() ? query_rank + kv_rank + rotary_width : 0; }
  int expert_inner() const noexcept { return expert_feed_forward > 0 ? expert_feed_forward : inner(); }
  /// The inner width that each token passes through: F, or k experts and the shared one.
  int token_inner(Mlp mlp) const noexcept {
    return mlp == Mlp::kDense ? inner() : experts_per_token * expert_inner() + shared_feed_forward;
  }
  Mlp mlp_of(int layer) const noexcept {
    const bool mixture = experts > 0 && layer >= dense_first && (layer - dense_first) % moe_every == 0;
    return mixture ? Mlp::kMixture : Mlp::kDense;
  }
  /// How many of `count` layers from `first` on are mixtures.
  int mixtures(int first, int count) const noexcept;
  /// Whether some layers are mixtures and others dense.
  bool mixed() const noexcept {
    const int count = mixtures(0, layers);
    return count > 0 && count < layers;
  }

  /// Parameters that one of `tensor` tensor-parallel ranks holds: matrices and their column-split biases are
  /// divided, norms, row-split biases and routers are whole on each. Where there are fewer heads of keys and
  /// values than ranks, ranks share copies of them. With the defaults and one rank 12 H^2 + 13 H. Of a
  /// mixture a rank holds one part of `expert_parallel` of the experts.
  std::uint64_t layer_parameters(int tensor = 1, Mlp mlp = Mlp::kDense,
                                 int expert_parallel = 1) const noexcept;
  /// Those of `count` layers from `first` on.
  std::uint64_t layers_parameters(int first, int count, int tensor = 1,
                                  int expert_parallel = 1) const noexcept;
  /// The number of a layer's parameters that are not divided: every tensor-parallel rank holds a copy of
  /// them. A mixture's router, H E, is among them, and of latent attention the matrices that compress.
  std::uint64_t replicated_layer_parameters(Mlp mlp = Mlp::kDense) const noexcept;
  /// Those of the matrices that compress a token for latent attention, H (Q + K + R) of ranks Q and K and R
  /// values that positions turn: every tensor-parallel rank has them whole.
  std::uint64_t compression_parameters() const noexcept;
  /// The parameters of one expert on each of `tensor` ranks that share it.
  std::uint64_t expert_parameters(int tensor = 1) const noexcept;
  /// The token embedding's V H parameters, divided along the vocabulary (rounded up).
  std::uint64_t token_embedding_parameters(int tensor = 1) const noexcept;
  /// The parameters of the first stage's embeddings: V H, where positions are learned S H, and a norm's.
  std::uint64_t embedding_parameters(int tensor = 1) const noexcept;
  /// The parameters of one norm.
  std::uint64_t norm_parameters() const noexcept;
  /// All parameters of the model.
  std::uint64_t parameters() const noexcept;
  /// Those that one token passes through: all but the experts to which it is not sent.
  std::uint64_t active_parameters() const noexcept;
  /// What a pipeline's ends hold beside layers: the embeddings on the first stage; the final norm and the
  /// output projection on the last, which is not held twice where it is tied and the stage is also the first.
  std::uint64_t end_parameters(bool first, bool last, int tensor = 1) const noexcept;
  /// Those of layer_parameters() that are in matrices, but for a router's.
  std::uint64_t matrix_parameters(int tensor = 1, Mlp mlp = Mlp::kDense,
                                  int expert_parallel = 1) const noexcept;
  /// Forward FLOPs of one layer for one row: 2 S per parameter of a matrix that a token passes through (of a
  /// mixture the router, k experts and the shared one) and 4 S^2 A for attention (causal or not), with the
  /// defaults 24 S H^2 + 4 S^2 H; backward is twice that. Latent attention makes whole keys and values, as
  /// training does.
  double layer_forward_flops(Mlp mlp = Mlp::kDense) const noexcept;
  /// Those of all layers.
  double layers_forward_flops() const noexcept;
  /// The part of layer_forward_flops() that attention's two products without weights take: 4 S^2 A, of which
  /// half is for scores, and so in proportion to the width of queries.
  double attention_core_flops() const noexcept;
  /// The part that a mixture's experts take but for the shared one: k 2 S per parameter of one.
  double experts_forward_flops() const noexcept;
  /// Forward FLOPs of the output projection for one row: 2 S H V.
  double head_forward_flops() const noexcept;
  /// Bytes of one row's activations between two layers: S H b.
  double boundary_bytes() const noexcept;
  /// Throws kInvalidUsage naming the field that is missing or impossible.
  void check() const;

  friend bool operator==(const Model&, const Model&) = default;
};

/// "layers=8,hidden=128,heads=4,context=128,vocabulary=256" (also width= for hidden=, name=, kv_heads=,
/// feed_forward=, head_width=, bytes= per value, experts=, experts_per_token=, expert_feed_forward=,
/// shared_feed_forward=, moe_every=, dense_first=, expert_imbalance=, kv_rank=, query_rank=, rotary_width=,
/// value_width=, rotary_base=, rotary_share=, rotary_scaling=, and gated=, learned_positions=,
/// tied_embeddings=, biases=, qkv_biases=, query_key_norms=, rotary_pairs=, alibi=, gelu_gate= and
/// the names of peculiarities with yes or no, and window= with tokens or no). Fields that are not named stay
/// as in `model`, but a router has no groups where they do not divide the experts, or those per token, that
/// the text says; Model::check() finds the missing. Throws kInvalidUsage.
Model parse_model(std::string_view text, Model model = {});

}  // namespace tombolo::planner
