#include "probe/probe.h"
#include "probe/rounds/schedule.h"
#include "probe/rounds/step_runner.h"
#include "probe/under_load.h"

namespace tombolo::probe {

ProbedLinks probe_links(const collectives::Options& options, const LinkProbeOptions& probe) {
  auto communicator = collectives::Communicator::create(options);
  return probe_links(*communicator, options, probe);
}

ProbedLinks probe_links(collectives::Communicator& communicator, const collectives::Options& options,
                        const LinkProbeOptions& probe) {
  StepRunner runner(communicator, options, probe);
  const auto steps = pair_steps(runner.hosts());
  runner.expect(steps.size());
  const StepResults results = runner.run(steps, Load::kOwn);

  ProbedLinks probed;
  PairRates rates;
  std::size_t index = 0;
  for (const Step& step : steps) {
    for (const NicPair& pair : step) {
      const std::string& error = results.errors[index];
      const double forward = results.forward(index), backward = results.backward(index),
                   latency = results.latency(index);
      ++index;
      const topology::Host &left = runner.hosts()[pair.left], &right = runner.hosts()[pair.right];
      const topology::Nic &left_nic = left.nics[pair.left_nic], &right_nic = right.nics[pair.right_nic];
      if (!error.empty()) {
        probed.failures.push_back(
            {left.name, left_nic.name, right.name, right_nic.name, left_nic.fabric, error});
        continue;
      }
      rates.add(pair, forward, backward);
      probed.links.push_back({left.name, left_nic.name, right.name, right_nic.name, forward, latency, true});
      probed.links.push_back({right.name, right_nic.name, left.name, left_nic.name, backward, latency, true});
    }
  }
  topology::ClusterFile cluster;
  cluster.hosts = runner.hosts();
  cluster.links = probed.links;
  probed.islands = find_islands(cluster);
  name_clusters(cluster, probed.islands);
  probe_under_load(runner, cluster, rates, probed);
  runner.finish();
  return probed;
}

}  // namespace tombolo::probe
