// A collective and its arguments.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "collectives/data/compression.h"
#include "collectives/data/data_type.h"
#include "collectives/data/premultiply.h"
#include "collectives/schedule/collective.h"

namespace tombolo::collectives {

/// The arguments are as Communicator's function of the collective's name takes them; those that it does not
/// have are ignored.
struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// Of gather, scatter, all-gather, reduce-scatter and all-to-all: the ranks' parts may differ; the same on
  /// every rank. `count` is that of the own part then (not of an all-to-all).
  bool uneven = false;
  /// Where the parts are in the buffer that holds all ranks': for all ranks but those that are not the root
  /// of gather and scatter. Of an all-to-all `parts` is of the receive buffer, and `sent_parts` of the other.
  std::shared_ptr<const Parts> parts = nullptr, sent_parts = nullptr;
  /// Of an all-reduce of kFloat32, a sum or an average: how it travels between clusters, the same on every
  /// rank; nothing: as Options::compression says.
  std::optional<Compression> compression = std::nullopt;
  /// Null, or what this rank's encodings have lost so far, `count` floats that begin as zeros; belongs to the
  /// call as its other buffers do.
  float* residual = nullptr;
  /// Of a reduction by kSum: what this rank's contribution is multiplied by before it is added, where there
  /// is one. Each rank has its own, or none.
  std::optional<Factor> factor = std::nullopt;
  /// Where buffers are GPU memory: a stream of CUDA (CUstream); what is queued there before the call is
  /// waited for. Null: the default stream.
  void* stream = nullptr;
};

}  // namespace tombolo::collectives
