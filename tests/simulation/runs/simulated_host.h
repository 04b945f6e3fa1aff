// A pretended process's part of a plan: its NICs and settings, and where its log goes.
#pragma once

#include <memory>

#include "base/log.h"
#include "tests/simulation/checks/verdict.h"
#include "tests/simulation/world/world.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/routing/router.h"

namespace tombolo::simulation {

/// Options of that host's routers by the plan, without a secret. Whoever makes the helpers drives their
/// background progress.
transport::RouterOptions router_options(const Plan& plan, unsigned host, World& world,
                                        std::shared_ptr<transport::bootstrap::ProcessHelpers> helpers,
                                        Log log);

/// Adds what became of the streams of a process to the verdict.
void count_streams(const transport::Meters& of_process, Verdict& verdict);

/// Prints with the virtual time where the options ask for it; silent otherwise. The world must outlive it.
Log log_of(const RunOptions& options, World& world, unsigned host);

}  // namespace tombolo::simulation
