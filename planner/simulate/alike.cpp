#include "planner/simulate/alike.h"

#include <algorithm>
#include <bit>

namespace tombolo::planner {

namespace {

/// Spreads a number over 64 bits, so that sums of several tell these apart (SplitMix64's last step).
std::uint64_t spread(std::uint64_t number) noexcept {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

std::uint64_t joined(std::uint64_t one, std::uint64_t other) noexcept {
  return spread(one ^ (other * 0x9e3779b97f4a7c15U));
}

}  // namespace

Colour& Colour::add(std::uint64_t number) noexcept {
  state_ = joined(state_, number);
  return *this;
}

Colour& Colour::add(double number) noexcept {
  // To the nearest of 2^40 steps per power of two.
  constexpr unsigned kDropped = 12;
  return add((std::bit_cast<std::uint64_t>(number) + (1U << (kDropped - 1))) >> kDropped);
}

int AlikeTransfers::add_transfer(const Colour& role, int replica) {
  transfers_.push_back({role.value(), replica, parts_.size(), {}});
  return static_cast<int>(transfers_.size() - 1);
}

void AlikeTransfers::add_part(double share, double limit, std::span<const Resource> resources) {
  parts_.push_back({0, share, limit, uses_.size()});
  for (const Resource resource : resources)
    if (resource != FluidEngine::kNone) uses_.push_back(resource);
}

std::span<const AlikeTransfers::Resource> AlikeTransfers::resources_of(std::size_t part) const {
  const std::size_t begin = parts_[part].first_use,
                    end = part + 1 < parts_.size() ? parts_[part + 1].first_use : uses_.size();
  return std::span(uses_).subspan(begin, end - begin);
}

std::span<AlikeTransfers::Part> AlikeTransfers::parts_of(std::size_t transfer) {
  const std::size_t begin = transfers_[transfer].first_part, end = transfer + 1 < transfers_.size()
                                                                       ? transfers_[transfer + 1].first_part
                                                                       : parts_.size();
  return std::span(parts_).subspan(begin, end - begin);
}

/// Gives all their next colours, each of which follows from the one before and from its neighbours'.
void AlikeTransfers::refine() {
  sums_.assign(resources_.size() + replicas_.size(), 0);
  const std::span of_resources = std::span(sums_).first(resources_.size()),
                  of_replicas = std::span(sums_).subspan(resources_.size());
  for (std::size_t number = 0; number < transfers_.size(); ++number) {
    Transfer& transfer = transfers_[number];
    std::uint64_t sum = 0;
    for (Part& part : parts_of(number)) {
      part.colour = Colour().add(transfer.colour).add(part.share).add(part.limit).value();
      const auto resources = resources_of(static_cast<std::size_t>(&part - parts_.data()));
      for (const Resource resource : resources)
        part.colour = joined(part.colour, resources_[index(resource)]);
      for (const Resource resource : resources) of_resources[index(resource)] += spread(part.colour);
      sum += spread(part.colour);
    }
    transfer.colour = joined(transfer.colour, sum);
    if (transfer.replica < 0) continue;
    transfer.colour = joined(transfer.colour, replicas_[index(transfer.replica)]);
    of_replicas[index(transfer.replica)] += spread(transfer.colour);
  }
  for (std::size_t i = 0; i < resources_.size(); ++i) resources_[i] = joined(resources_[i], of_resources[i]);
  for (std::size_t i = 0; i < replicas_.size(); ++i) replicas_[i] = joined(replicas_[i], of_replicas[i]);
  for (const std::vector<int>& team : teams_) {
    std::uint64_t all = 0;
    for (const int replica : team) all = joined(all, replicas_[index(replica)]);
    for (std::size_t place = 0; place < team.size(); ++place)
      replicas_[index(team[place])] = joined(all, place);
  }
}

/// How many colours there are.
std::size_t AlikeTransfers::colours() {
  const std::size_t all = replicas_.size() + transfers_.size() + resources_.size();
  table_.assign(std::bit_ceil(2 * all), 0);
  const std::size_t mask = table_.size() - 1;
  std::size_t found = 0;
  const auto note = [&](std::uint64_t colour) {
    colour += colour == 0 ? 1 : 0;
    for (std::size_t place = colour & mask;; place = (place + 1) & mask) {
      if (table_[place] == colour) return;
      if (table_[place] != 0) continue;
      table_[place] = colour;
      ++found;
      return;
    }
  };
  for (const std::uint64_t colour : replicas_) note(colour);
  for (const Transfer& transfer : transfers_) note(transfer.colour);
  for (const std::uint64_t colour : resources_) note(colour);
  return found;
}

bool AlikeTransfers::find(const FluidEngine& engine) {
  resources_.assign(engine.resources(), 0);
  for (std::size_t i = 0; i < resources_.size(); ++i)
    resources_[i] = Colour().add(engine.capacity(static_cast<Resource>(i))).value();
  const auto all_differ = [&] {
    std::vector<std::uint64_t> sorted = replicas_;
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) == sorted.end();
  };
  for (std::size_t before = 0, now = colours(); now != before && !all_differ();) {
    before = now;
    refine();
    now = colours();
  }
  if (all_differ()) return false;
  count();
  return true;
}

/// Counts what each class has.
void AlikeTransfers::count() {
  copies_.assign(replicas_.size(), 0);
  std::unordered_map<std::uint64_t, std::size_t> first_replica;
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    ++copies_[first_replica.try_emplace(replicas_[i], i).first->second];
  for (std::size_t i = 0; i < transfers_.size(); ++i)
    classes_.try_emplace(transfers_[i].colour, Class{static_cast<int>(i), {}})
        .first->second.latencies.raise(transfers_[i].latencies);
  std::unordered_map<std::uint64_t, Resource> first_resource;
  standing_.resize(resources_.size());
  for (std::size_t i = 0; i < resources_.size(); ++i)
    standing_[i] = first_resource.try_emplace(resources_[i], static_cast<Resource>(i)).first->second;
  for (std::size_t part = 0; part < parts_.size(); ++part)
    for (const Resource resource : resources_of(part))
      if (standing_[index(resource)] == resource)
        ++counts_[joined(parts_[part].colour, static_cast<std::uint64_t>(resource))];
}

const AlikeTransfer& AlikeTransfers::for_all(int transfer) {
  const auto [entry, added] = merged_.try_emplace(transfer);
  AlikeTransfer& merged = entry->second;
  if (!added) return merged;
  merged.latencies = class_of(transfer).latencies;
  std::vector<std::uint64_t> seen;
  for (const Part& part : parts_of(index(transfer))) {
    if (std::ranges::find(seen, part.colour) != seen.end()) continue;
    seen.push_back(part.colour);
    AlikePart& one = merged.parts.emplace_back(AlikePart{part.share, part.limit, {}});
    for (const Resource resource : resources_of(static_cast<std::size_t>(&part - parts_.data()))) {
      const Resource standing = standing_[index(resource)];
      // Two that are alike limit it alike.
      if (std::ranges::find(one.uses, standing, &FluidEngine::Use::resource) != one.uses.end()) continue;
      one.uses.push_back({standing, counts_.at(joined(part.colour, static_cast<std::uint64_t>(standing)))});
    }
  }
  return merged;
}

}  // namespace tombolo::planner
