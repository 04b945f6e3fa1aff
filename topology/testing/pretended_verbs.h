// For tests: a library of libibverbs's name and functions, which answers what a test has written here. A
// program that is linked with it finds it in place of the system's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tombolo::topology::test {

struct PretendedVerbsPort {
  bool answers = true;
  int mtu = 5;              ///< as enum ibv_mtu: 5 is 4096 bytes
  int gids_in_table = 256;  ///< that the port claims to have
  std::map<int, std::array<std::uint8_t, 16>> gids = {};
};

struct PretendedVerbsDevice {
  std::string name;
  bool opens = true, answers = true;
  int open_error = 0;                          ///< errno where it does not open
  std::vector<PretendedVerbsPort> ports = {};  ///< the first is port 1
};

struct PretendedVerbs {
  bool lists = true;
  std::vector<PretendedVerbsDevice> devices;
  int open = 0;       ///< devices opened less closed
  int lists_out = 0;  ///< lists got less freed
};

/// What the library answers from.
PretendedVerbs& pretended_verbs();

}  // namespace tombolo::topology::test
