// What libibverbs, loaded at run time, says about the RDMA devices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topology/nic.h"

namespace tombolo::topology {

struct VerbsPort {
  int number = 0;  ///< 1-based
  int mtu = 0;     ///< active, bytes; 0 = unknown
  std::vector<Gid> gids;
};

struct VerbsDevice {
  std::string name;
  std::string problem;  ///< why this process cannot open it; empty where it can
  std::vector<VerbsPort> ports;
};

struct VerbsFunctions;

class VerbsLibrary {
 public:
  /// Loads the library. Nothing where it is absent or lacks a function; `*problem` then says why.
  static std::optional<VerbsLibrary> load(std::string* problem);
  /// Lists the devices; each is opened for a moment.
  std::vector<VerbsDevice> devices() const;

 private:
  explicit VerbsLibrary(std::shared_ptr<const VerbsFunctions> functions);
  std::shared_ptr<const VerbsFunctions> functions_;
};

}  // namespace tombolo::topology
