// What a layer's experts compute on a rank, beside what every layer does.
#pragma once

#include "planner/model/job.h"

namespace tombolo::planner {

/// Seconds of the products of the experts to which the router sends tokens.
struct ExpertProducts {
  double forward = 0, input = 0, weights = 0;
};

/// Those for `rows` rows of each replica on one of `tensor` ranks that share its experts. Each of a rank's
/// experts is taken to get as many tokens. A rank multiplies T k tokens in all, and where replicas divide
/// experts the one that all others wait for as many times more as Job::expert_load() says, k 2 FLOPs per
/// token and parameter of an expert, in one product for each of its experts, which takes no less time than it
/// takes to read that expert's matrix from memory, or for the gradients of weights to add to them (to read
/// and write them): with few tokens per expert this decides. That many small products otherwise reach what
/// large ones do is an assumption. `memory_bytes_per_second` 0: unknown, memory never decides.
ExpertProducts expert_products(const Job& job, double rows, int tensor, double flops_per_second,
                               double memory_bytes_per_second);

/// The bytes that one pass moves through a rank's memory to send tokens to experts and back, T tokens of H
/// values of b bytes, of which a rank has 1/t where the sequence is divided:
///  * the router reads them, and writes, normalises and compares E scores in fp32: T (H b + 16 E)
///  * k copies of each are read and written to be in the order of the ranks, and again on their way back:
///    4 k T H b
///  * a rank with several experts sorts by these what comes from several ranks, there and back: 4 k T H b on
///    each of the ranks that share an expert, for all of them have every token
double routed_bytes(const Job& job, double rows, int tensor);

}  // namespace tombolo::planner
