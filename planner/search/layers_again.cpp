#include "planner/search/layers_again.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "planner/cost/memory.h"
#include "planner/cost/reserve.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

constexpr std::uint64_t kUnknownRoom = std::numeric_limits<std::uint64_t>::max();

/// By replica, the first one that has the same pipeline.
std::vector<std::size_t> alike_pipelines(const Plan& plan) {
  std::vector<std::size_t> first(plan.pipelines.size());
  for (std::size_t replica = 0; replica < first.size(); ++replica)
    first[replica] = static_cast<std::size_t>(std::ranges::find(plan.pipelines, plan.pipelines[replica]) -
                                              plan.pipelines.begin());
  return first;
}

/// The least memory that any rank of a slot may use, by pipeline and slot.
std::vector<std::vector<std::uint64_t>> room_by_slot(const Plan& plan, const ClusterView& view,
                                                     const std::vector<std::size_t>& first) {
  std::vector<std::vector<std::uint64_t>> room(plan.pipelines.size());
  for (std::size_t replica = 0; replica < room.size(); ++replica)
    room[replica].assign(at(plan.pipeline_size(static_cast<int>(replica))), kUnknownRoom);
  std::string_view name;
  int host = -1;
  for (const RankPlacement& place : plan.ranks) {
    if (place.host != name) {  // ranks of a host are often in a row
      name = place.host;
      host = view.host_index(name);
    }
    const topology::Device& device = view.host(host).devices[at(place.device)];
    if (device.memory_bytes <= 0) continue;
    std::uint64_t& least = room[first[at(place.replica)]][at(place.stage)];
    least = std::min(least, static_cast<std::uint64_t>(usable_memory(plan.job, device)));
  }
  return room;
}

/// The least number from `at_least` on with which a slot fits; `all` where none below that does.
class SlotNeed {
 public:
  SlotNeed(Plan& plan, int replica, int slot, std::uint64_t room)
      : plan_(plan), replica_(replica), slot_(slot), room_(room) {}

  int least(int at_least, int all) {
    const std::uint64_t before = bytes(at_least);
    if (before <= room_) return at_least;
    const std::uint64_t after = bytes(all - 1);
    if (after > room_ || before <= after) return all;
    // Memory falls in proportion, but for chunks that have fewer layers.
    const double share = static_cast<double>(before - room_) / static_cast<double>(before - after);
    int layers = std::clamp(at_least + static_cast<int>(share * (all - 1 - at_least)), at_least, all - 1);
    while (layers < all - 1 && bytes(layers) > room_) ++layers;
    while (layers > at_least && bytes(layers - 1) <= room_) --layers;
    return layers;
  }

 private:
  std::uint64_t bytes(int layers) {
    plan_.job.recompute_layers = layers;
    return rank_memory(plan_, replica_, slot_).total;
  }

  Plan& plan_;
  int replica_, slot_;
  std::uint64_t room_;
};

int most_layers_of_a_stage(const Plan& plan) {
  int most = 1;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages) most = std::max(most, stage.layers);
  return most;
}

}  // namespace

void settle_layers_again(Plan& plan, const ClusterView& view) {
  Job& job = plan.job;
  const int all = most_layers_of_a_stage(plan);
  const bool open = job.recompute_layers == Job::kAsNeeded;
  if (job.recompute != Recompute::kFull || job.recompute_layers >= all ||
      (open && (all == 1 || job.expert_parallel > 1 || job.context_parallel > 1))) {
    job.recompute_layers = 0;
    return;
  }
  if (!open) return;
  const std::vector<std::size_t> first = alike_pipelines(plan);
  const auto room = room_by_slot(plan, view, first);
  int needed = 1;
  for (std::size_t replica = 0; replica < room.size() && needed < all; ++replica) {
    if (first[replica] != replica) continue;
    for (std::size_t slot = 0; slot < room[replica].size() && needed < all; ++slot)
      if (room[replica][slot] != kUnknownRoom)
        needed = SlotNeed(plan, static_cast<int>(replica), static_cast<int>(slot), room[replica][slot])
                     .least(needed, all);
  }
  job.recompute_layers = needed < all ? needed : 0;
}

}  // namespace tombolo::planner
