// The files that the demo writes: all of them at its end, and none when it fails or is interrupted.
#pragma once

#include <string>
#include <vector>

#include "tools/demo/report.h"
#include "tools/demo/session.h"

namespace tombolo::tools::demo {

class Results {
 public:
  /// Makes the folder where it is missing. Removes from it the results of an earlier demo, as listed in that
  /// demo's report.json, so that they are not mistaken for this one's. Throws kInvalidUsage when the folder
  /// cannot be written to, or holds a file of one of the demo's names that no such report lists.
  explicit Results(const std::string& folder);
  /// Where write() has not completed, removes the files that it wrote, and the folder if this object made it.
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  /// Writes report, page, trace, cluster file, plans, log and weights. Throws kSystem.
  void write(const Report& report, const Session& session);
  /// A text that lists the files.
  std::string listing() const;
  /// Names of all files, for Report::files.
  static std::vector<std::string> names();

 private:
  std::string path(const std::string& name) const;
  std::string folder_;
  bool made_ = false, begun_ = false, written_ = false;
};

}  // namespace tombolo::tools::demo
