// What plugin_perf measures.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tombolo::bench::plugin {

/// The command line.
struct Plan {
  std::string plugin;
  int abi = 0;  ///< 0 = the newest that a plugin has
  std::vector<std::string> peers;
  std::string nccl;
  bool no_nccl = false;
  bool ucx = false;
  bool shm_ways = false;
  std::vector<std::string> only;  ///< keys of candidates; empty = all
  std::vector<std::string> sizes{"8K", "32K", "64K", "256K", "1M", "4M", "16M", "64M"};
  std::vector<std::string> trips{"8", "1K", "8K", "64K"};
  std::vector<std::size_t> channels{1, 4};
  int repeats = 5;
  double bytes_per_run = 256e6;
  double memory = 1e9;
  std::string json;
};

}  // namespace tombolo::bench::plugin
