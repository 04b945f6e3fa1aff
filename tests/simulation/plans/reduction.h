// Ways to make a plan simpler, of which each leaves a plan that can be carried out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tests/simulation/plans/collective_plan.h"
#include "tests/simulation/plans/plan.h"
#include "tests/simulation/plans/plugin_plan.h"

namespace tombolo::simulation {

/// One way, which can be taken at any of a plan's places on its own, or at several at once.
template <typename P>
struct Reduction {
  std::function<std::size_t(const P&)> places;
  /// Takes it at the places from `begin` up to `end`, without that; false where this changes nothing.
  std::function<bool(P&, std::size_t begin, std::size_t end)> take;
};
template <typename P>
using Reductions = std::vector<Reduction<P>>;

// Of a plan, or of a part of one. The parts are pointers to members, or what std::invoke() takes for one.

/// Changes the whole, where `change` can.
template <typename P>
Reduction<P> once(std::function<bool(P&)> change) {
  return {[](const P&) { return std::size_t{1}; },
          [change = std::move(change)](P& plan, std::size_t, std::size_t) { return change(plan); }};
}

/// The part becomes what it is unless somebody says otherwise.
template <typename P, typename Part>
Reduction<P> as_usual(Part part) {
  return once<P>([part](P& plan) {
    P usual{};
    if (std::invoke(part, plan) == std::invoke(part, usual)) return false;
    std::invoke(part, plan) = std::invoke(part, usual);
    return true;
  });
}

/// The number that the part is becomes half as large.
template <typename P, typename Part>
Reduction<P> halved(Part part) {
  return once<P>([part](P& plan) {
    auto& number = std::invoke(part, plan);
    if (number <= 1) return false;
    number /= 2;
    return true;
  });
}

/// Elements of a list are left out.
template <typename P, typename List>
Reduction<P> left_out(List list) {
  return {[list](const P& plan) { return std::invoke(list, plan).size(); },
          [list](P& plan, std::size_t begin, std::size_t end) {
            auto& all = std::invoke(list, plan);
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(begin),
                      all.begin() + static_cast<std::ptrdiff_t>(end));
            return begin != end;
          }};
}

/// A reduction of what a plan holds is one of the plan.
template <typename P, typename Inner, typename Part>
Reduction<P> within(Part part, const Reduction<Inner>& one) {
  return {[part, one](const P& plan) { return one.places(std::invoke(part, plan)); },
          [part, one](P& plan, std::size_t begin, std::size_t end) {
            return one.take(std::invoke(part, plan), begin, end);
          }};
}

/// And so is one of the elements of a list, one after the other.
template <typename P, typename Inner, typename List>
Reduction<P> in_each(List list, const Reduction<Inner>& one) {
  return {[list, one](const P& plan) {
            std::size_t places = 0;
            for (const Inner& each : std::invoke(list, plan)) places += one.places(each);
            return places;
          },
          [list, one](P& plan, std::size_t begin, std::size_t end) {
            bool changed = false;
            for (Inner& each : std::invoke(list, plan)) {
              const std::size_t places = one.places(each);
              if (begin < std::min(end, places)) changed |= one.take(each, begin, std::min(end, places));
              begin -= std::min(begin, places);
              end -= std::min(end, places);
            }
            return changed;
          }};
}

/// All of them, those that make a plan much shorter before the others.
template <typename P>
Reductions<P> all_reductions();
template <>
Reductions<Plan> all_reductions();
template <>
Reductions<PluginPlan> all_reductions();
template <>
Reductions<CollectivePlan> all_reductions();

}  // namespace tombolo::simulation
