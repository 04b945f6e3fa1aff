// For tests: the machines recorded in topology/recorded/.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "topology/detect.h"

namespace tombolo::topology {

inline std::string recorded_path(const std::string& name) {
  return std::string(TOMBOLO_SOURCE_DIR "/topology/recorded/") + name + ".tree";
}

/// A recorded machine, such as "roce-bond", and what detection makes of it.
struct RecordedMachine {
  explicit RecordedMachine(const std::string& name)
      : machine(detect({.root = recorded_path(name), .live = false, .log = {}})) {}

  const Nic& nic(const std::string& name) const {
    static const Nic none;
    auto found = std::find_if(machine.nics.begin(), machine.nics.end(),
                              [&](const Nic& one) { return one.name == name; });
    if (found != machine.nics.end()) return *found;
    ADD_FAILURE() << "no NIC " << name;
    return none;
  }
  /// Names of the NICs that would be used, best first.
  std::string used() const {
    std::string names;
    for (const Nic& one : machine.nics)
      if (one.usable) names += (names.empty() ? "" : " ") + one.name;
    return names;
  }
  void expect(const std::string& name, NicKind kind, bool usable, std::string_view part) const {
    const Nic& one = nic(name);
    EXPECT_EQ(nic_kind_name(one.kind), nic_kind_name(kind)) << name << ": " << one.reason;
    EXPECT_EQ(one.usable, usable) << name << ": " << one.reason;
    EXPECT_NE(one.reason.find(part), std::string::npos) << name << ": " << one.reason;
  }

  Machine machine;
};

}  // namespace tombolo::topology
