// What adds up the gradients of a run: what --reduce says, and what the ranks have.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "collectives/engine/communicator.h"
#include "trainer/pipeline/gradient_sum.h"
#include "trainer/run/back_end.h"

namespace tombolo::trainer {

enum class ReductionChoice {
  kAuto,  ///< NCCL where every rank can, else the engine
  kEngine,
  kNccl,
};
/// "auto", "engine", "nccl".
std::string_view reduction_choice_name(ReductionChoice choice) noexcept;
std::optional<ReductionChoice> reduction_choice_from_name(std::string_view name) noexcept;

/// Throws kInvalidUsage where NCCL is asked for and this rank computes on the CPU: before ranks meet.
void check_reduction(ReductionChoice choice, DeviceChoice device);

struct ReductionDecision {
  Reduction reduction = Reduction::kEngine;
  std::string note;  ///< for people: what was taken and why; empty where there was nothing to choose
};

/// What the run's options ask for.
struct ReductionWish {
  ReductionChoice choice = ReductionChoice::kAuto;
  bool counts_bytes = false;  ///< into files of the run: the engine knows them, and NCCL does not tell
  std::string plugin = {};    ///< what offer_net_plugin() returned
};

/// Collective over `world` (null: a single rank): all ranks decide alike. Throws the same on every rank,
/// kUnsupported naming the first rank that cannot, where NCCL was asked for; kInvalidUsage where ranks were
/// started with different choices.
ReductionDecision choose_reduction(const ReductionWish& wish, const BackEnd& back_end,
                                   collectives::Communicator* world);

}  // namespace tombolo::trainer
