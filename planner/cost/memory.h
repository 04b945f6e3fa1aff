// The memory that each rank needs under the schedule, counted as its framework allocates it, and not
// estimated by a factor.
#pragma once

#include "planner/plan/plan.h"

namespace tombolo::planner {

/// The bytes that a rank in `slot` of `replica`'s pipeline holds:
///  * parameters: Model::stage_parameters of all its chunks, divided among tensor-parallel ranks; where a
///    framework keeps fp8 copies, 2 bytes more for each that is in a layer's matrices: once as it is, and
///    once transposed
///  * gradients: one for each, of Job::gradient_bytes()
///  * optimizer: 8 bytes per parameter (Adam's two moments), and 4 more for a master copy where values are
///    smaller than 4 bytes
///  * of what replicas share (replica_exchange.h) one replica's part of these. Buffers then hold whole what
///  is
///    used of it at once: of parameters two layers, one that computes and the next, which is gathered; of
///    gradients two, one that is computed and one that is scattered
///  * activations: the most that its operations, in their order, hold at once: what the backward pass needs
///    of each chunk, and where the last layers are, of the final norm and the logits
///  * buffers: the bundled trainer's, what one backward pass works in, what it computes again of one layer,
///    three boundary gradients (one being computed with, one being sent, one arriving), and one more input,
///    so that the next can arrive; Megatron-LM's: one boundary each way, and the gradient of the logits in
///    fp32; a profile's overhead
/// Replicas that divide experts each hold their part of these; what replicas share of an expert's parameters
/// is shared among those that hold the same. Replicas that divide rows' tokens hold the activations of their
/// part, and in the buffers what they exchange, as those that divide experts hold one layer's tokens on their
/// way to them and back. Where the library says what was measured of a software (HeldMemory), that replaces
/// Megatron-LM's activations and logits, and adds to gradients and buffers. On the bundled trainer's GPUs:
/// what cuda_memory.h says.
RankMemory rank_memory(const Plan& plan, int replica, int slot);

/// The bytes that a rank in `slot` of `replica`'s pipeline holds beyond rank_memory() as long as its device
/// has room for them; no plan needs them. PyTorch gives a tensor that another stream reads back to its
/// allocator only once that stream has passed it, so that of a program that queues kernels faster than they
/// run many dead ones wait: of the exchanges of ranks that share a layer, each as large as the activations of
/// a whole micro-batch between two layers, whatever the number of ranks. How many was measured (HeldMemory);
/// 0 where nothing was.
std::uint64_t deferred_bytes(const Plan& plan, int replica, int slot);

/// The bytes that each rank holds, by rank.
std::vector<RankMemory> memory_by_rank(const Plan& plan);

/// Bytes that one layer keeps for its backward pass, for a micro-batch of `rows` rows; `until_weights` once
/// only the weights' gradients are missing.
///  * bundled trainer: norm 1, qkv (3), attention's output, the residual after it, norm 2, the MLP before and
///    after GELU (4 each) and the output, 16 boundaries in all; mean and reciprocal deviation of both norms;
///    the attention weights, unless they are recomputed selectively; of full recomputation the output alone.
///    On a GPU as cuda_memory.h says
///  * Megatron-LM: Korthikanti et al. (arXiv 2205.05198), table 2, for GPT's shape s b h (34 + 5 a s / h)
///    bytes at 2 bytes per value, with the terms that tensor and sequence parallelism divide, and those that
///    recomputation drops; other shapes term by term. Where a framework keeps fp8, products keep their inputs
///    in one byte, and attention its output in 2 beside that: 29 for 34. What weights' gradients need: the
///    inputs of the products. A mixture holds the inside of k experts and of the shared one, the k copies of
///    each token that go to experts, whole on each rank, and 5 bytes per score of the router
HeldBytes layer_activation_bytes(const Job& job, int rows, int tensor, Mlp mlp = Mlp::kDense);

}  // namespace tombolo::planner
