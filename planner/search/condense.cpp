#include "planner/search/condense.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

/// The hosts of one class, each as a list of its launcher ranks.
using HostRanks = std::vector<std::vector<int>>;

/// What two hosts must have in common to be alike; links between hosts are assumed to follow from that.
std::string class_of(const topology::Host& host) {
  std::string text = host.cluster;
  for (const topology::Nic& nic : host.nics)
    text += fmt::format("|{} {} {} {}", topology::nic_kind_name(nic.kind), nic.fabric,
                        nic.rate_bits_per_second, nic.usable);
  for (const topology::Device& device : host.devices)
    text += fmt::format("/{} {} {} {}", device.name, device.flops_per_second, device.memory_bytes,
                        device.memory_bytes_per_second);
  return text;
}

std::vector<HostRanks> classes_of(const SearchContext& context) {
  std::map<int, std::size_t> host_at;  // index of a host in its class
  std::map<std::string, std::size_t> known;
  std::vector<HostRanks> classes;
  std::map<int, std::size_t> class_at;
  for (std::size_t rank = 0; rank < context.launcher_slots.size(); ++rank) {
    const int host = context.launcher_slots[rank].host;
    if (!host_at.contains(host)) {
      const auto [entry, added] = known.try_emplace(class_of(context.view.host(host)), classes.size());
      if (added) classes.emplace_back();
      class_at[host] = entry->second;
      host_at[host] = classes[entry->second].size();
      classes[entry->second].emplace_back();
    }
    classes[class_at[host]][host_at[host]].push_back(static_cast<int>(rank));
  }
  return classes;
}

bool divides(const SearchContext& context, const Job& job, const std::vector<HostRanks>& classes,
             std::size_t copies) {
  const int count = static_cast<int>(copies);
  if (job.global_batch % count != 0 || job.data % (count * job.context_parallel) != 0 ||
      job.data % (count * job.expert_parts()) != 0)
    return false;
  for (const HostRanks& hosts : classes) {
    if (hosts.size() % copies != 0) return false;
    for (const auto& ranks : hosts) {
      if (ranks.size() != hosts.front().size()) return false;
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (context.launcher_slots[at(ranks[i])].device !=
            context.launcher_slots[at(hosts.front()[i])].device)
          return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Condensed> condensed(const SearchContext& context, const Job& job, std::size_t most_ranks) {
  const std::vector<HostRanks> classes = classes_of(context);
  std::size_t copies = (context.launcher_slots.size() + most_ranks - 1) / most_ranks;
  while (copies <= context.launcher_slots.size() && !divides(context, job, classes, copies)) ++copies;
  if (copies < 2 || copies > context.launcher_slots.size()) return std::nullopt;
  Condensed result;
  result.copies = static_cast<int>(copies);
  result.job = job;
  result.job.global_batch /= result.copies;
  result.job.data /= result.copies;
  std::map<int, std::vector<int>> twins;  // for each launcher rank of the first copy, its counterparts in all
  for (const HostRanks& hosts : classes) {
    const std::size_t part = hosts.size() / copies;
    for (std::size_t host = 0; host < part; ++host)
      for (std::size_t i = 0; i < hosts[host].size(); ++i)
        for (std::size_t copy = 0; copy < copies; ++copy)
          twins[hosts[host][i]].push_back(hosts[copy * part + host][i]);
  }
  for (auto& [rank, others] : twins) {
    result.slots.push_back(context.launcher_slots[at(rank)]);
    result.twins.push_back(std::move(others));
  }
  return result;
}

Layout repeated(const Layout& part, const Condensed& condensed) {
  Layout all = part;
  all.replicas.clear();
  for (int copy = 0; copy < condensed.copies; ++copy)
    for (Layout::Replica replica : part.replicas) {
      for (Layout::PipelineSlot& slot : replica.slots)
        for (int& rank : slot.ranks) rank = condensed.twins[at(rank)][at(copy)];
      all.replicas.push_back(std::move(replica));
    }
  return all;
}

}  // namespace tombolo::planner
