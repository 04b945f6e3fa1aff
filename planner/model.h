// What is to be trained, in the few numbers that decide time and memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tombolo::planner {

/// A GPT-2-shaped transformer: pre-norm, learned positions, tied embeddings, MLP of 4 x hidden.
struct Model {
  std::string name;
  int layers = 0;  ///< L
  int hidden = 0;  ///< H
  int heads = 0;
  int context = 0;     ///< S, tokens per row
  int vocabulary = 0;  ///< V
  int bytes_per_value = 4;

  std::uint64_t layer_parameters() const noexcept;            ///< 12 H^2 + 13 H
  std::uint64_t token_embedding_parameters() const noexcept;  ///< V H, shared with the output projection
  std::uint64_t embedding_parameters() const noexcept;        ///< V H + S H
  std::uint64_t final_norm_parameters() const noexcept { return 2 * static_cast<std::uint64_t>(hidden); }
  std::uint64_t parameters() const noexcept;  ///< with the final norm
  /// Of a pipeline stage: its layers; the embeddings on the first; the final norm and, when it is not also
  /// the first, its own copy of the token embedding on the last.
  std::uint64_t stage_parameters(int stage_layers, bool first, bool last) const noexcept;
  /// Forward FLOPs of one layer for one row (matrix products: 24 S H^2 + 4 S^2 H); backward is twice that.
  double layer_forward_flops() const noexcept;
  /// Forward FLOPs of the output projection for one row: 2 S H V.
  double head_forward_flops() const noexcept;
  /// Bytes of one row's activations between two layers: S H b.
  double boundary_bytes() const noexcept;
  /// Throws kInvalidUsage naming the field that is missing or impossible.
  void check() const;
};

/// "layers=8,hidden=128,heads=4,context=128,vocabulary=256" (also width=, name=, bytes= per value). Fields
/// that are not named keep their defaults; Model::check() finds the missing. Throws kInvalidUsage.
Model parse_model(std::string_view text);

/// How it is to be trained.
struct Job {
  Model model;
  int global_batch = 0;  ///< rows per step
  int micro_batch = 0;   ///< rows per micro-batch; 0 = the planner chooses
  int pipeline = 0;      ///< stages; 0 = the planner chooses
  int data = 0;          ///< replicas; 0 = the planner chooses
};

}  // namespace tombolo::planner
