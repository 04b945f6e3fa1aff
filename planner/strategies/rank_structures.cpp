#include "planner/strategies/rank_structures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

class StructureSearch {
 public:
  StructureSearch(const SearchContext& context, const Job& job, const std::vector<int>& classes)
      : context_(context), job_(job), classes_(classes) {}

  std::vector<Structure> run() {
    std::vector<bool> used(context_.launcher_slots.size(), false);
    Structure structure;
    add_pipeline(used, structure);
    return std::move(structures_);
  }

 private:
  /// Adds a pipeline. Pipelines are tried in every order, because gradients go around a ring in that order.
  void add_pipeline(std::vector<bool>& used, Structure& structure) {
    const bool all = std::ranges::find(used, false) == used.end();
    if (all || (context_.options.may_leave_out && !structure.empty())) keep(structure);
    if (all) return;
    structure.emplace_back();
    extend(used, structure);
    structure.pop_back();
  }

  /// Adds one more group to the last pipeline, or closes it.
  void extend(std::vector<bool>& used, Structure& structure) {
    if (!structure.back().empty()) add_pipeline(used, structure);
    std::vector<int> left;
    for (std::size_t rank = 0; rank < used.size(); ++rank)
      if (!used[rank]) left.push_back(static_cast<int>(rank));
    for (unsigned chosen = 1; chosen < 1u << left.size(); ++chosen) {
      RankGroup group;
      for (std::size_t i = 0; i < left.size(); ++i)
        if (chosen >> i & 1) group.push_back(left[i]);
      if (!may_share(group)) continue;
      for (const int rank : group) used[at(rank)] = true;
      structure.back().push_back(group);
      extend(used, structure);
      structure.back().pop_back();
      for (const int rank : group) used[at(rank)] = false;
    }
  }

  bool may_share(const RankGroup& group) const {
    const int size = static_cast<int>(group.size());
    if (job_.tensor > 0 && size != job_.tensor) return false;
    if (size == 1) return true;
    if (!traits(job_.framework).tensor_parallel || job_.model.heads % size != 0) return false;
    return std::ranges::all_of(group, [&](int rank) {
      return context_.launcher_slots[at(rank)].host == context_.launcher_slots[at(group.front())].host;
    });
  }

  void keep(const Structure& structure) {
    if (job_.data > 0 && static_cast<int>(structure.size()) != job_.data) return;
    if (static_cast<int>(structure.size()) > job_.replica_rows()) return;
    std::vector<std::string> names;
    for (const auto& pipeline : structure) {
      if (static_cast<int>(pipeline.size()) > job_.model.layers ||
          (job_.pipeline > 0 && static_cast<int>(pipeline.size()) != job_.pipeline))
        return;
      if (!context_.options.uneven_replicas && (pipeline.size() != structure.front().size() ||
                                                std::ranges::any_of(pipeline, [&](const RankGroup& group) {
                                                  return group.size() != structure.front().front().size();
                                                })))
        return;
      std::string name;
      for (const RankGroup& group : pipeline) {
        for (const int rank : group) name += fmt::format("{},", classes_[at(rank)]);
        name += '|';
      }
      names.push_back(std::move(name));
    }
    std::string all;
    for (const std::string& name : names) all += name + '/';
    if (seen_.insert(all).second) structures_.push_back(structure);
  }

  const SearchContext& context_;
  const Job& job_;
  const std::vector<int>& classes_;
  std::set<std::string> seen_;
  std::vector<Structure> structures_;
};

}  // namespace

std::vector<int> exchangeable_classes(const SearchContext& context) {
  std::map<std::string, int> names;
  std::vector<int> classes;
  for (const LauncherSlot& slot : context.launcher_slots) {
    const auto& device = context.view.host(slot.host).devices[at(slot.device)];
    const auto key = fmt::format("{}/{}/{}/{}/{}", slot.host, device.name, device.flops_per_second,
                                 device.memory_bytes, device.memory_bytes_per_second);
    classes.push_back(names.emplace(key, static_cast<int>(names.size())).first->second);
  }
  return classes;
}

std::vector<Structure> structures_of(const SearchContext& context, const Job& job,
                                     const std::vector<int>& classes) {
  return StructureSearch(context, job, classes).run();
}

}  // namespace tombolo::planner
