#include "tools/launch/probe_ranks.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "collectives/engine/gather_texts.h"
#include "probe/bootstrap/control_network.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools {

namespace {

/// Collective: returns the speeds of every rank, by rank.
std::vector<RankSpeeds> speeds_of_all(collectives::Communicator& communicator,
                                      const probe::ComputeResult& compute) {
  const RankSpeeds mine{compute.alone, compute.together, compute.gpu ? 1.0 : 0.0};
  std::vector<RankSpeeds> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(reinterpret_cast<const double*>(&mine), reinterpret_cast<double*>(all.data()),
                          sizeof(RankSpeeds) / sizeof(double), collectives::DataType::kFloat64);
  return all;
}

}  // namespace

collectives::Options options_of_job() {
  collectives::Options engine = collectives::Options::from_environment();
  engine.discover = false;  // it measures more than that, itself
  if (engine.identity.size < 2) {
    fail(Cause::kInvalidUsage,
         "one rank has nobody to measure a link with; start it under torchrun, srun, mpirun or tombolo run "
         "(--emulate holmes gives an emulated cluster)");
  }
  return engine;
}

ProbedJob probe_job(const ProbeRequest& request, const collectives::Options& engine,
                    probe::RendezvousGroup& group) {
  auto communicator = collectives::Communicator::create(probe::control_network_options(group, engine));
  probe::LinkProbeOptions links;
  links.seconds_per_pair = request.seconds;
  // Measuring computation counts as one more step after those of the links.
  int done_steps = 0;
  const int steps_after = request.compute ? 1 : 0;
  links.progress = [&](int done, int total) {
    done_steps = done;
    if (request.progress) request.progress(done, total + steps_after);
  };
  ProbedJob job;
  job.links = probe::probe_links(*communicator, engine, links);
  probe::ComputeResult compute;
  if (request.compute) {
    probe::ComputeProbeOptions what;
    what.gpu = probe::gpu_of(*communicator, engine.router.host);
    compute = probe::probe_compute(*communicator, what);
    job.speeds = speeds_of_all(*communicator, compute);
    job.gpu_problems = collectives::gather_texts(*communicator, compute.problem);
    if (communicator->rank() == 0) links.progress(done_steps + 1, done_steps + 1 - steps_after);
  }
  job.cluster = probe::describe(*communicator, engine.router.host, topology::cluster_file_from_environment(),
                                job.links, compute);
  job.told = probe::separate_fabrics(job.cluster, job.links.failures, job.unexplained);
  job.rank = communicator->rank();
  job.members = communicator->members();
  communicator->barrier();
  return job;
}

void print_problems(const ProbedJob& probed, std::string_view command) {
  for (const std::string& each : probed.told) fmt::print(stderr, "tombolo {}: {}\n", command, each);
  for (std::size_t r = 0; r < probed.gpu_problems.size(); ++r)
    if (!probed.gpu_problems[r].empty())
      fmt::print(stderr, "tombolo {}: rank {} on {}: its GPU was not measured: {}\n", command, r,
                 probed.members[r].host, probed.gpu_problems[r]);
  for (const std::string& each : probed.unexplained)
    fmt::print(stderr, "tombolo {}: not measured: {}\n", command, each);
}

}  // namespace tombolo::tools
