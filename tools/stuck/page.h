// The findings of a job that hangs, for people: one page of text. Pure.
#pragma once

#include <string>

#include "tools/stuck/findings.h"

namespace tombolo::tools::stuck {

/// Of at most some hundred lines, whatever the number of ranks; ends with a line end.
std::string page_of(const JobView& job, const Findings& findings);

}  // namespace tombolo::tools::stuck
