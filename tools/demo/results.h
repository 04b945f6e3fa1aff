// The files that the demo leaves: all at the end, none when it fails or is interrupted.
#pragma once

#include <string>

#include "tools/demo/report.h"
#include "tools/demo/session.h"

namespace tombolo::tools::demo {

class Results {
 public:
  /// Makes the folder where it is missing, and removes results of an earlier demo from it, so that none are
  /// mistaken for this one's. Throws kInvalidUsage when it cannot be written to.
  explicit Results(const std::string& folder);
  /// Removes the folder again if it made it and nothing was written.
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  /// Report, page, trace, cluster file, plans, log and weights. Throws kSystem.
  void write(const Report& report, const Session& session);
  /// Lines for people: what lies where.
  std::string listing() const;

 private:
  std::string path(const std::string& name) const;
  std::string folder_;
  bool made_ = false, written_ = false;
};

}  // namespace tombolo::tools::demo
