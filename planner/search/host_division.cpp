#include "planner/search/host_division.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "planner/model/index.h"
#include "planner/search/division_ideas.h"

namespace tombolo::planner {

namespace {

/// Hosts whose devices are alike.
struct HostType {
  std::vector<int> degrees;             ///< the tensor degrees that are possible
  std::vector<std::vector<int>> hosts;  ///< launcher ranks of each
};

class HostDivision {
 public:
  HostDivision(const SearchContext& context, const Job& job, bool aligned)
      : context_(context), job_(job), aligned_(aligned), ideas_(context, job, aligned) {
    find_types();
  }

  std::vector<Layout> layouts() {
    std::vector<int> degrees(types_.size());
    choose_degrees(degrees, 0);
    return ideas_.layouts();
  }

 private:
  void find_types() {
    std::map<int, std::vector<int>> by_host;
    for (std::size_t rank = 0; rank < context_.launcher_slots.size(); ++rank)
      by_host[context_.launcher_slots[rank].host].push_back(static_cast<int>(rank));
    std::map<std::tuple<double, double, std::size_t>, std::size_t> known;
    for (const auto& [host, ranks] : by_host) {
      const LauncherSlot& slot = context_.launcher_slots[at(ranks.front())];
      const auto& device = context_.view.host(host).devices[at(slot.device)];
      const auto [entry, added] =
          known.try_emplace({device.flops_per_second, device.memory_bytes, ranks.size()}, types_.size());
      if (added) {
        HostType& type = types_.emplace_back();
        for (int degree = 1; degree <= static_cast<int>(ranks.size()); ++degree)
          if (static_cast<int>(ranks.size()) % degree == 0 && job_.model.heads % degree == 0 &&
              (job_.tensor == 0 || job_.tensor == degree))
            type.degrees.push_back(degree);
      }
      types_[entry->second].hosts.push_back(ranks);
    }
  }

  void choose_degrees(std::vector<int>& degrees, std::size_t type) {
    if (type < types_.size()) {
      for (const int degree : types_[type].degrees) {
        degrees[type] = degree;
        choose_degrees(degrees, type + 1);
      }
      return;
    }
    std::set<int> splits = {1};
    if (!aligned_)
      for (std::size_t i = 0; i < types_.size(); ++i)
        for (int split = 1; split <= static_cast<int>(types_[i].hosts.front().size()) / degrees[i];
             split *= 2)
          splits.insert(split);
    for (const int split : splits) divide(degrees, split);
  }

  /// Cuts every host into `split` slices, or as many as it has units, and adds the divisions of these.
  void divide(const std::vector<int>& degrees, int split) {
    std::vector<HostSlice> slices;
    for (std::size_t type = 0; type < types_.size(); ++type)
      for (const std::vector<int>& ranks : types_[type].hosts) {
        const int units = static_cast<int>(ranks.size()) / degrees[type];
        const int pieces = std::gcd(units, split);
        for (int piece = 0; piece < pieces; ++piece) {
          HostSlice& slice = slices.emplace_back();
          for (int unit = 0; unit < units / pieces; ++unit) {
            const auto first = ranks.begin() + (piece * (units / pieces) + unit) * degrees[type];
            slice.units.push_back(ideas_.unit({first, first + degrees[type]}, static_cast<int>(type)));
          }
          ideas_.time(slice);
        }
      }
    const int most = std::min(static_cast<int>(slices.size()), job_.replica_rows());
    for (int pipelines = 1; pipelines <= most; ++pipelines) {
      if (job_.data > 0 && pipelines != job_.data) continue;
      // Many slices are only divided evenly.
      if (slices.size() > 32 && static_cast<int>(slices.size()) % pipelines != 0) continue;
      if (slices.size() <= 8 && pipelines <= 8) {
        Assignment assignment;
        every_assignment(slices, pipelines, 0, assignment);
      } else {
        balanced_assignments(slices, pipelines);
      }
    }
  }

  /// Adds every set partition of the slices. Slices that are alike are only assigned in falling order of
  /// their pipelines' numbers, so that no partition occurs twice.
  void every_assignment(const std::vector<HostSlice>& slices, int pipelines, int used,
                        Assignment& assignment) {
    const int left = static_cast<int>(slices.size() - assignment.size());
    if (left < pipelines - used) return;
    if (left == 0) {
      ideas_.add(slices, pipelines, assignment);
      return;
    }
    const std::size_t next = assignment.size();
    const bool like_last = next > 0 &&
                           slices[next].units.front().type == slices[next - 1].units.front().type &&
                           slices[next].units.size() == slices[next - 1].units.size();
    for (int pipeline = like_last ? assignment.back() : 0; pipeline < std::min(used + 1, pipelines);
         ++pipeline) {
      assignment.push_back(pipeline);
      every_assignment(slices, pipelines, std::max(used, pipeline + 1), assignment);
      assignment.pop_back();
    }
  }

  /// Adds three assignments of many slices: in turn; in the order of their types, so that each pipeline has
  /// one type; and the fastest slice to the slowest pipeline.
  void balanced_assignments(const std::vector<HostSlice>& slices, int pipelines) {
    const auto count = static_cast<int>(slices.size());
    Assignment turns, blocks, fastest(slices.size());
    for (int i = 0; i < count; ++i) {
      turns.push_back(i % pipelines);
      blocks.push_back(static_cast<int>(static_cast<std::int64_t>(i) * pipelines / count));
    }
    std::vector<std::size_t> order(slices.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order,
                             [&](auto a, auto b) { return slices[a].speeds[0] > slices[b].speeds[0]; });
    std::vector<double> speed(at(pipelines), 0);
    for (const std::size_t slice : order) {
      const auto slowest = std::ranges::min_element(speed);
      fastest[slice] = static_cast<int>(slowest - speed.begin());
      *slowest += slices[slice].speeds[0];
    }
    for (const Assignment& assignment : {turns, blocks, fastest}) ideas_.add(slices, pipelines, assignment);
  }

  const SearchContext& context_;
  const Job& job_;
  bool aligned_;
  DivisionIdeas ideas_;
  std::vector<HostType> types_;
};

}  // namespace

std::vector<Layout> host_divisions(const SearchContext& context, const Job& job, bool aligned) {
  return HostDivision(context, job, aligned).layouts();
}

}  // namespace tombolo::planner
