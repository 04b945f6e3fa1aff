// How the ranks learn that a checkpoint is whole, without a collective of their own: every training step adds
// up these counts over all ranks, beside its loss.
#pragma once

namespace tombolo::trainer {

/// On the one checkpoint that has been begun and not been settled: how many ranks have their shard on the
/// disk, and how many could not write it. Zeros while there is none, or a rank still writes.
struct SaveVotes {
  int durable = 0;
  int failed = 0;
};

}  // namespace tombolo::trainer
