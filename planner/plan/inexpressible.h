// What of a plan a framework cannot carry out.
#pragma once

#include <string>
#include <vector>

#include "planner/model/framework.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// By the framework's traits, a sentence for each choice of the plan that it lacks; empty where it can carry
/// out the plan. This is the only such check: searches keep to what passes it, and emitters refuse what does
/// not.
std::vector<std::string> inexpressible(const Plan& plan, Framework framework);
/// The same for what a job fixes, before there is a plan.
std::vector<std::string> inexpressible(const Job& job, Framework framework);

}  // namespace tombolo::planner
