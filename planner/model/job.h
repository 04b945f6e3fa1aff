// How a model is to be trained.
//
// This folder owns what a plan is made for: the model's shape (model.h), how it is trained (this file and the
// small ones it includes), what the program that trains can do (framework.h), and measured times of the
// model's layers (profile.h).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/model/compute_profile.h"
#include "planner/model/context_exchange.h"
#include "planner/model/framework.h"
#include "planner/model/model.h"
#include "planner/model/precision.h"
#include "planner/model/profile.h"
#include "planner/model/recompute.h"
#include "planner/model/schedule.h"
#include "planner/model/sharding.h"

namespace tombolo::planner {

/// A way to save memory: by computing again, by a second exchange per step, or by an exchange in each layer
/// with experts.
struct Saving {
  Recompute recompute = Recompute::kNone;
  Sharding sharding = Sharding::kNone;
  int expert_parallel = 1;
  friend auto operator<=>(const Saving&, const Saving&) = default;
};

/// On what the bundled trainer computes; it allocates differently on each.
enum class TrainerDevice {
  kCpu,
  kCuda,  ///< a GPU; values of 2 bytes are bf16 there, gradients and the optimizer's parameters stay fp32
};
/// "cpu", "cuda".
std::string_view trainer_device_name(TrainerDevice device) noexcept;
std::optional<TrainerDevice> trainer_device_from_name(std::string_view name) noexcept;

struct Job {
  Model model;
  int global_batch = 0;  ///< rows per step
  int micro_batch = 0;   ///< rows per micro-batch; 0 = the planner chooses
  int pipeline = 0;      ///< stages; 0 = the planner chooses
  int data = 0;          ///< replicas, those that divide rows' tokens too; 0 = the planner chooses
  int tensor = 1;        ///< ranks that share each layer; 0 = the planner chooses
  Schedule schedule = Schedule::kOneForwardOneBackward;
  int chunks = 1;  ///< model chunks per stage; more than 1 where the schedule interleaves
  Recompute recompute = Recompute::kNone;
  /// Where whole layers are computed again (Recompute::kFull): the first so many of each model chunk; 0 =
  /// all.
  int recompute_layers = 0;
  /// Of recompute_layers: the planner takes as few as memory needs.
  static constexpr int kAsNeeded = -1;
  bool sequence_parallel =
      false;  ///< what would be equal on all tensor-parallel ranks is divided among them along the sequence
  Sharding sharding = Sharding::kNone;
  /// Replicas in a row that take the same rows and divide their tokens; 0 = the planner chooses.
  int context_parallel = 1;
  ContextExchange context_exchange = ContextExchange::kRing;
  /// Replicas in a row that divide each layer's experts among themselves, and send each other the tokens that
  /// are for them; 0 = the planner chooses. A replica's tensor-parallel ranks share its experts as they share
  /// all else.
  int expert_parallel = 1;
  /// In what matrices are multiplied; absent: bf16 where values have 2 bytes, else fp32.
  std::optional<Precision> precision = {};
  /// Whether attention's kernel keeps the weights of a block of tokens at a time, as FlashAttention does
  /// (arXiv 2205.14135). Else they go through memory, and are kept for the backward pass unless it computes
  /// them again. Of frameworks other than the bundled trainer, whose own attention is what its device has.
  bool fused_attention = true;
  bool overlap_tensor = false;      ///< tensor-parallel exchanges beside matrix products
  bool overlap_parameters = false;  ///< what a sharded optimizer updated is gathered beside the forward pass
  bool overlap_gradients = true;    ///< gradients are reduced while the backward pass goes on
  /// What stages do while they send; see blocks_sends().
  StageSends sends = StageSends::kBeside;
  bool fp32_gradients = true;  ///< but of the bundled trainer, see gradient_bytes()
  Framework framework = Framework::kTombolo;
  /// Whose measured constants count, as library/compute.json names software; empty: the framework's own.
  std::string software = {};
  TrainerDevice device = TrainerDevice::kCpu;  ///< of the bundled trainer, on all ranks
  int moment_bytes = 4;  ///< of one of the optimizer's moments; 2 = bf16, on the bundled trainer's GPUs
  /// Bytes of each GPU that no plan may use; absent: what planner/cost/reserve.h says. Not part of the plan
  /// file, as a plan's own choices are.
  std::optional<double> reserve_bytes = {};
  /// Measured times of the layers. Without them, times follow from FLOPs. They are not part of the plan file.
  std::shared_ptr<const Profile> profile = {};
  /// How fast the framework's kernels are, by device. Where there is none, or none for a device, layers take
  /// their FLOPs over the attained FLOP/s. Not part of the plan file either.
  std::shared_ptr<const ComputeProfiles> compute = {};

  /// Whether neither end of a transfer between stages computes meanwhile: as `sends` says, but beside
  /// computing where stages have several chunks.
  bool blocks_sends() const noexcept { return sends != StageSends::kBeside && !interleaves(schedule); }
  /// Of a chunk's layers, how many are computed again as a whole: the first so many. As long as that is open,
  /// all.
  int layers_again(int layers) const noexcept {
    if (recompute != Recompute::kFull) return 0;
    return recompute_layers > 0 ? std::min(recompute_layers, layers) : layers;
  }
  Saving saving() const noexcept { return {recompute, sharding, expert_parallel}; }
  void set(const Saving& saving) noexcept {
    recompute = saving.recompute;
    sharding = saving.sharding;
    expert_parallel = saving.expert_parallel;
  }
  /// Whether replicas divide at least the optimizer's state.
  bool sharded() const noexcept { return sharding != Sharding::kNone; }
  /// In what matrices are multiplied.
  Precision multiplies_in() const noexcept {
    return precision.value_or(model.bytes_per_value == 2 ? Precision::kBf16 : Precision::kFp32);
  }
  /// Whether the bundled trainer computes on GPUs.
  bool on_cuda() const noexcept { return framework == Framework::kTombolo && device == TrainerDevice::kCuda; }
  /// Whether the weights of attention, heads x S values per token, are anywhere in memory.
  bool has_attention_weights() const noexcept {
    return framework == Framework::kTombolo ? device == TrainerDevice::kCpu : !fused_attention;
  }
  /// Bytes of one gradient as it is kept and reduced: those of the model's values in the bundled trainer on a
  /// CPU, fp32 on a GPU; the other frameworks accumulate in fp32 unless they are told not to.
  int gradient_bytes() const noexcept {
    const bool fp32 = framework == Framework::kTombolo ? on_cuda() : fp32_gradients;
    return fp32 ? 4 : model.bytes_per_value;
  }
  /// Bytes per parameter that the optimizer keeps beside the parameter: two moments, and a master copy in
  /// fp32 where the parameter is smaller.
  int optimizer_bytes() const noexcept { return 2 * moment_bytes + (model.bytes_per_value < 4 ? 4 : 0); }
  /// The rows per step of all replicas together: those that divide a row's tokens each have it.
  int replica_rows() const noexcept { return global_batch * context_parallel; }
  /// Why a job's replicas cannot divide its rows' tokens where `tensor` ranks share each layer; empty where
  /// they can. A ring needs two equal parts per replica, since each takes an early and a late one, so that
  /// causal attention is the same work for all; an all-to-all needs as many heads, and heads of keys, per
  /// rank.
  std::string context_misfit(int sharers) const;
  /// Into how many parts experts are divided: 1 as long as that is open.
  int expert_parts() const noexcept { return std::max(1, expert_parallel); }
  /// By how much the rank that gets the most tokens for its experts, and for which all others wait, has more
  /// than the mean: Model::expert_imbalance where replicas divide experts. Where each has all, it computes
  /// all of its own tokens.
  double expert_load() const noexcept { return expert_parts() > 1 ? model.expert_imbalance : 1; }
  /// The inner width that each token passes through on such a rank: Model::token_inner() with k experts more
  /// by expert_load().
  double token_inner(Mlp mlp) const noexcept {
    const double routed = 1.0 * model.experts_per_token * model.expert_inner();
    return model.token_inner(mlp) + (mlp == Mlp::kDense ? 0 : (expert_load() - 1) * routed);
  }
  /// Why `replicas` replicas cannot divide the experts of a layer as the job says; empty where they can.
  std::string expert_misfit(int replicas) const;
  /// The parameters of `count` layers from `first` on that each of `sharers` tensor-parallel ranks holds.
  std::uint64_t layer_parameters(int first, int count, int sharers = 1) const;
  /// Of these, those of the experts where replicas divide them: one replica of each expert_parallel has the
  /// same. 0 where all have all.
  std::uint64_t expert_parameters(int first, int count, int sharers = 1) const;
  /// The parameters of the embedding on each of `sharers` ranks, by the profile where it has them.
  std::uint64_t embedding_parameters(int sharers = 1) const;
  /// The bytes that `layer` passes to the next, per row, by the profile where it has them.
  double boundary_bytes(int layer) const;
  /// Throws kInvalidUsage naming the contradiction: tensor degrees that do not divide the heads, sequence
  /// parallelism without tensor parallelism, chunks without the interleaved schedule, or what the framework
  /// cannot do (the bundled trainer can only do 1F1B, without tensor parallelism and a sharded optimizer; its
  /// values are of 4 or 2 bytes on a GPU, its moments of 2 only there), or what is not modelled yet.
  void check() const;
};

/// Everything that the job's framework can do on its device to save memory, with the job's number of stages
/// where that is fixed, ordered by cost, with its experts divided as the job says. Sharding comes before
/// computing again: that of the optimizer's state only sends in two parts what is sent in any case, and what
/// the others send more goes beside the passes. Where attention has no weights in memory there is nothing to
/// recompute selectively.
std::vector<Saving> savings_of(const Job& job);

}  // namespace tombolo::planner
