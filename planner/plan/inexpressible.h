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

/// What of the model no argument of the framework says, with the fields of `--model` that leave it out; empty
/// where all can be said. A plan takes as long, and as much memory, without, so that searches do not mind;
/// emitters refuse it.
std::string unsaid(const Model& model, Framework framework);

}  // namespace tombolo::planner
