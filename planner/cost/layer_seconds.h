// Seconds of one layer, and of the output projection with the loss, for a micro-batch on ranks that share it.
#pragma once

#include "planner/cost/collective.h"
#include "planner/model/compute_profile.h"
#include "planner/model/job.h"

namespace tombolo::planner {

/// Seconds of one micro-batch on devices that compute nothing else meanwhile. What tensor-parallel ranks send
/// each other is included.
struct PassSeconds {
  double forward = 0;
  double backward_input = 0;  ///< includes what is computed again, where activations are not kept
  double backward_weights = 0;

  double backward() const noexcept { return backward_input + backward_weights; }
  double both() const noexcept { return forward + backward(); }
};

/// What a device attains.
struct DeviceSpeeds {
  double flops_per_second = 0;         ///< of large matrix products
  double memory_bytes_per_second = 0;  ///< 0 = unknown: what moves through memory takes no time
  double fp8_flops_per_second = 0;     ///< as flops_per_second; for jobs that multiply in fp8
};

/// An all-reduce of one micro-batch's activations among the ranks that share a layer.
struct TensorReduce {
  double transfer = 0;  ///< seconds in which bytes move; they hide behind the launches of kernels, as what
                        ///< the software takes per hop between hosts was seen to
  double waiting = 0;   ///< seconds of the other hops, which nothing hides
};

/// Who shares a layer.
struct LayerGroup {
  int tensor = 1;                       ///< ranks
  int hosts = 1;                        ///< on so many hosts
  bool in_pipeline_over_hosts = false;  ///< the pipeline has several stages and leaves the host
  /// Among the replicas that divide a row's tokens, of one rank of each; none where a pass is simulated with
  /// what they exchange.
  CollectiveLink context = {};
  /// Seconds of one all-to-all among the replicas that divide experts (expert_exchange.h), of which
  /// expert_exchanges() come to a pass; 0 where a pass is simulated with them.
  double expert_exchange = 0;
};

/// The bytes that a forward and a backward pass of one layer move through memory to convert the operands of
/// its products to fp8, on one of the ranks that share it, for `rows` rows: each product's input, and
/// backward the gradient of its output, is read once and written twice, as it is and transposed, since fp8
/// products take both operands along the rows. 0 for jobs that do not multiply in fp8.
struct Fp8Conversions {
  double forward = 0, backward = 0;
};
/// Of a mixture the experts' inputs and outputs, k per token, are whole on each rank.
Fp8Conversions fp8_conversions(const Job& job, int tensor, double rows, Mlp mlp = Mlp::kDense);

/// What attention's exchange among c replicas that divide a row's tokens adds to a layer's passes, beside a
/// core that takes `forward_core` and `backward_core` seconds. With x the seconds in which a rank passes its
/// keys and values on, 2 (S / c) A K b / t bytes per row for K the share of heads that have keys of their
/// own:
///  * ring: c - 1 times, each beside the attention to one of c blocks of keys, of which max(0, x - core / c)
///  shows;
///    backward keys and values go with their gradients, 2 x, and the gradients take one more hop home.
///  * all-to-all: queries, keys, values and outputs, of each (c - 1) / c; as many bytes backward. Nothing
///  hides them.
struct ContextSeconds {
  double forward = 0, backward = 0;
};
ContextSeconds context_seconds(const Job& job, const LayerGroup& group, double rows, double forward_core,
                               double backward_core);

/// The seconds of attention's core for `rows` rows on one of `tensor` ranks, of which replicas that divide
/// rows' tokens each compute their part; what is computed again in any case is in the backward pass.
struct CoreSeconds {
  double forward = 0, backward = 0;
};
CoreSeconds core_seconds(const Job& job, const ComputeProfile& profile, const DeviceSpeeds& speeds,
                         int tensor, double rows);

/// The seconds of one layer for `rows` rows on each of the group's ranks. With
///  * P, the products: 2 FLOPs per token and parameter of a matrix, at `products` of the attained FLOP/s, or
///    of those in fp8 where the job multiplies in it; then the memory traffic of fp8_conversions() is added;
///  * A, attention's core: 4 S^2 times its width FLOPs per row, half of it where attention is fused and skips
///  what causality
///    masks;
///  * M, memory: `traffic` times the activations that Korthikanti et al. (arXiv 2205.05198) count as kept;
///  * R, two all-reduces of the activations' bytes and their hops,
/// all divided by the ranks, a forward pass takes max(floor, P + A + M + R's bytes) + R's hops, a backward
/// pass max(floor, 2 P + 2 A + 2 M + R's bytes + what is computed again) + R's hops; fused attention computes
/// its weights again and takes 2.5 A. Where a job overlaps its exchanges with products (t ranks), R with its
/// hops leaves over what P does not cover and 1/t of the shorter of both. Of the backward pass the share of
/// one P and one M is for the gradients of weights. Where replicas divide rows' tokens, each has its part of
/// all of this, and waits for what context_seconds() says.
/// A mixture's P has what expert_products() says for the experts; its M is of the MLPs that a token passes
/// through, and both passes also move routed_bytes(). Ranks that share a layer gather the k copies of each
/// token before the experts and scatter their sums after: R has 1 + k all-reduces' bytes in place of two, and
/// one more for a shared expert. The pass then takes the exchanges among replicas besides.
PassSeconds layer_seconds(const Job& job, const ComputeProfile& profile, const DeviceSpeeds& speeds,
                          const LayerGroup& group, double rows, const TensorReduce& reduce,
                          Mlp mlp = Mlp::kDense);

/// The seconds of the output projection (2 S H V FLOPs per row, and twice that backward; never in fp8) and of
/// the loss,
/// whose traffic counts a third forward; backward the gradient of the input is reduced.
PassSeconds head_seconds(const Job& job, const ComputeProfile& profile, const DeviceSpeeds& speeds,
                         const LayerGroup& group, double rows, const TensorReduce& reduce);

}  // namespace tombolo::planner
