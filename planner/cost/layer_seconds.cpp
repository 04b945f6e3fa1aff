#include "planner/cost/layer_seconds.h"

#include <algorithm>

#include "planner/cost/expert_exchange.h"
#include "planner/cost/expert_work.h"

namespace tombolo::planner {

namespace {

double over(double amount, double rate) {
  return rate > 0 ? amount / rate : 0;
}

/// The bytes that a layer keeps for `rows` rows on one of the ranks, by Korthikanti et al.; with fused
/// attention without the weights of attention, of which they count `pairs` bytes per pair of tokens and head.
struct KeptBytes {
  double but_pairs = 0, pairs = 0;
};
KeptBytes kept_bytes(const Job& job, bool fused, int tensor, double rows, Mlp mlp) {
  const Model& model = job.model;
  const double h = model.hidden, b = model.bytes_per_value, tokens = rows * model.context;
  const double masks = model.gated ? 0 : 2;  // dropout is what GPT has and later models lack
  // Whole on every rank unless the sequence is divided: the inputs of two norms and of two products.
  // Of what latent attention compresses the inputs of norms, and what these put out.
  const double compressed = 2.0 * model.compressed_width() - model.rotary_width;
  const double whole = (4 * b + masks) * h + b * compressed;
  const double divided =
      b * (1.0 * model.query_width() + model.attention_width() + model.keys_values_width()) +
      b * job.token_inner(mlp) * (model.gated ? 3 : 2);
  const double pairs = fused ? 0 : (2 * b + 1) * model.heads * model.context;
  return {tokens * (whole / (job.sequence_parallel ? tensor : 1) + divided / tensor),
          tokens * pairs / tensor};
}

/// How many all-reduces' bytes ranks that share a layer send in each direction: gathered before attention and
/// scattered after it, and for the MLP. What is compressed is gathered in place of the tokens.
double reductions_of(const Job& job, Mlp mlp) {
  const Model& model = job.model;
  const double attention = model.query_rank > 0 ? (1 + 1.0 * model.compressed_width() / model.hidden) / 2 : 1;
  if (mlp == Mlp::kDense) return attention + 1;
  return attention + job.expert_load() * model.experts_per_token + (model.shared_feed_forward > 0 ? 1 : 0);
}

}  // namespace

Fp8Conversions fp8_conversions(const Job& job, int tensor, double rows, Mlp mlp) {
  if (!is_fp8(job.multiplies_in())) return {};
  const Model& model = job.model;
  const double h = model.hidden, a = model.attention_width(), f = job.token_inner(mlp), t = tensor;
  const double sequence = job.sequence_parallel ? t : 1;
  // Inputs: of queries, keys and values together, and of the MLP, which are whole on every rank unless the
  // sequence is divided; of attention's output and of the MLP's second product. Outputs are the other way
  // round.
  const double compressed = model.compressed_width();
  // Of latent attention's keys no product makes what positions turn for every head.
  const double made = 1.0 * model.query_width() + model.keys_values_width() -
                      1.0 * model.key_value_heads() * model.rotary_width;
  const bool every_token = mlp == Mlp::kDense || model.shared_feed_forward > 0;
  const double copies = mlp == Mlp::kDense ? 0 : job.expert_load() * model.experts_per_token * h;
  const double whole = ((every_token ? 2 : 1) * h + compressed) / sequence + copies;
  const double inputs = whole - (model.latent() ? model.rotary_width : 0) / sequence + (a + f) / t;
  const double outputs = whole + (made + f * (model.gated ? 2 : 1)) / t;
  const double per_value = rows * model.context * (model.bytes_per_value + 2.0);
  return {per_value * inputs, per_value * outputs};
}

ContextSeconds context_seconds(const Job& job, const LayerGroup& group, double rows, double forward_core,
                               double backward_core) {
  const double parts = group.context.ranks;
  if (parts < 2) return {};
  const Model& model = job.model;
  const double keys_values = model.keys_values_width();
  const double one = rows * model.context / job.context_parallel * model.bytes_per_value / group.tensor;
  const double hop = group.context.hop_seconds, per_byte = group.context.seconds_per_byte;
  if (job.context_exchange == ContextExchange::kAllToAll) {
    const double values = 1.0 * model.query_width() + model.attention_width() + keys_values;
    const double all = (parts - 1) / parts * values * one * per_byte + 4 * hop;
    return {all, all};
  }
  const double bytes = keys_values * one * per_byte;
  const auto shown = [&](double exchanged, double core) {
    return (parts - 1) * std::max(0.0, exchanged - core / parts);
  };
  return {shown(bytes + hop, forward_core), shown(2 * (bytes + hop), backward_core) + bytes + hop};
}

namespace {

/// Whether attention skips what is masked and its weights never go to memory: as the software was measured,
/// and unless the job says otherwise.
bool fused(const Job& job, const ComputeProfile& profile) {
  return profile.fused_attention && job.fused_attention;
}

/// The share that attention's core reaches of the speed of products: the record's, and where the job has no
/// fused attention though the record has, all of it, for its two products are a layer's like others; to
/// Megatron's A100 record of the library, that was fitted so.
double attention_share(const Job& job, const ComputeProfile& profile) {
  return fused(job, profile) == profile.fused_attention ? profile.attention : 1;
}

}  // namespace

CoreSeconds core_seconds(const Job& job, const ComputeProfile& profile, const DeviceSpeeds& speeds,
                         int tensor, double rows) {
  const double flops = job.model.attention_core_flops() * rows / job.context_parallel / tensor;
  const bool skips = fused(job, profile);
  const double forward = flops * (skips ? 0.5 : 1) /
                         (profile.products * speeds.flops_per_second * attention_share(job, profile));
  return {forward, (skips ? 2.5 : 2) * forward};
}

PassSeconds layer_seconds(const Job& job, const ComputeProfile& profile, const DeviceSpeeds& speeds,
                          const LayerGroup& group, double all_rows, const TensorReduce& reduce, Mlp mlp) {
  const Model& model = job.model;
  const bool mixture = mlp == Mlp::kMixture;
  const double rows = all_rows / job.context_parallel;
  const double ranks = group.tensor;
  const double all_flops = model.layer_forward_flops(mlp) * rows / ranks,
               core_flops = model.attention_core_flops() * rows / ranks,
               expert_flops = mixture ? model.experts_forward_flops() * rows / ranks : 0;
  const double product_speed = profile.products * (is_fp8(job.multiplies_in()) ? speeds.fp8_flops_per_second
                                                                               : speeds.flops_per_second);
  // Where the sequence is not divided every rank compresses all tokens.
  const double compressed_by_all =
      job.sequence_parallel ? 0
                            : 2.0 * model.context * static_cast<double>(model.compression_parameters()) *
                                  rows * (1 - 1 / ranks);
  const double of_all_tokens = (all_flops - core_flops - expert_flops + compressed_by_all) / product_speed;
  const ExpertProducts experts =
      mixture ? expert_products(job, rows, group.tensor, product_speed, speeds.memory_bytes_per_second)
              : ExpertProducts{};
  const double products = of_all_tokens + experts.forward, weight_products = of_all_tokens + experts.weights;
  const double backward_products = of_all_tokens + experts.input + weight_products;
  const double routed =
      mixture ? over(routed_bytes(job, rows, group.tensor), speeds.memory_bytes_per_second) : 0;
  const Fp8Conversions converted = fp8_conversions(job, group.tensor, rows, mlp);
  const auto [core, backward_core] = core_seconds(job, profile, speeds, group.tensor, all_rows);
  const KeptBytes kept =
      profile.traffic > 0 ? kept_bytes(job, fused(job, profile), group.tensor, rows, mlp) : KeptBytes{};
  const double pairs = over(profile.traffic * kept.pairs, speeds.memory_bytes_per_second);
  const double memory = over(profile.traffic * kept.but_pairs, speeds.memory_bytes_per_second) + pairs;
  const double moved = reductions_of(job, mlp) * reduce.transfer;
  const double exchanged = moved + 2 * reduce.waiting;
  // Beside products each of the ranks' parts is sent while the one before it is multiplied, so that of the
  // shorter of both only one part is left over.
  const auto left_over = [&](double product_seconds) {
    return std::max(0.0, exchanged - product_seconds) + std::min(exchanged, product_seconds) / ranks;
  };
  const ContextSeconds context = context_seconds(job, group, all_rows, core, backward_core);
  const double waited = job.overlap_tensor ? 0 : 2 * reduce.waiting;
  const double reduced = job.overlap_tensor ? left_over(products) : moved;
  const double reduced_back = job.overlap_tensor ? left_over(backward_products) : reduced;
  const double forward =
      products + core + memory + routed + over(converted.forward, speeds.memory_bytes_per_second) + reduced;

  // What the bundled trainer's attention on a GPU, and any fused one, computes again in any case is in its
  // backward pass already.
  const bool never_kept = fused(job, profile) || job.on_cuda();
  double again = 0, waited_again = 0;
  if (job.recompute == Recompute::kSelective && !never_kept) again = core + pairs;
  if (job.recompute == Recompute::kFull) {
    again = forward;
    waited_again = waited + context.forward;
  }
  const double weights = weight_products + memory;
  const double backward = backward_products + backward_core + 2 * memory + routed +
                          over(converted.backward, speeds.memory_bytes_per_second) + reduced_back + again;

  double more = profile.floor_per_host * (group.hosts - 1);
  if (group.in_pipeline_over_hosts) more += profile.floor_per_pipelined_rank * ranks;
  const double forward_floor = profile.forward_floor + more;
  const double backward_floor = profile.forward_floor > 0
                                    ? forward_floor * profile.backward_floor / profile.forward_floor
                                    : profile.backward_floor;
  // Where launches decide, both kinds of gradients are as much longer.
  const double longer = backward > 0 ? std::max(1.0, backward_floor / backward) : 1;
  const auto sent = [&](bool is_forward) {
    return mixture ? expert_exchanges(job.recompute, is_forward) * group.expert_exchange : 0;
  };
  return {std::max(forward_floor, forward) + waited + context.forward + sent(true),
          longer * (backward - weights) + waited + waited_again + context.backward + sent(false),
          longer * weights};
}

PassSeconds head_seconds(const Job& job, const ComputeProfile& profile, const DeviceSpeeds& speeds,
                         const LayerGroup& group, double all_rows, const TensorReduce& reduce) {
  const Model& model = job.model;
  const double rows = all_rows / job.context_parallel;
  const double ranks = group.tensor;
  const double product =
      model.head_forward_flops() * rows / ranks / (profile.products * speeds.flops_per_second);
  const double logits = rows * model.context * static_cast<double>(model.vocabulary) / ranks;
  const double loss = over(profile.loss_traffic * logits, speeds.memory_bytes_per_second);
  return {product + loss / 3, product + 2 * loss / 3 + reduce.transfer + reduce.waiting, product};
}

}  // namespace tombolo::planner
