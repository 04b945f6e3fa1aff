#include "probe/rounds/nic_pairs.h"

#include <algorithm>

namespace tombolo::probe {
namespace {

bool carries(const topology::Nic& nic) {
  return nic.usable && !nic.addresses.empty();
}

}  // namespace

bool joins(const topology::Nic& nic, topology::NicKind kind, const std::string& fabric) {
  return carries(nic) && nic.kind == kind && nic.fabric == fabric;
}

std::vector<std::pair<std::size_t, std::size_t>> nic_pairs(const topology::Host& left,
                                                           const topology::Host& right) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t l = 0; l < left.nics.size(); ++l) {
    for (std::size_t r = 0; r < right.nics.size(); ++r) {
      const topology::Nic& ours = left.nics[l];
      const topology::Nic& theirs = right.nics[r];
      if (carries(ours) && joins(theirs, ours.kind, ours.fabric)) all.emplace_back(l, r);
    }
  }
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return left.nics[a.first].kind < left.nics[b.first].kind;
  });
  return all;
}

}  // namespace tombolo::probe
