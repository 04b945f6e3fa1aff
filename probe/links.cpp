#include "probe/meetings.h"
#include "probe/player.h"
#include "probe/probe.h"
#include "probe/under_load.h"

namespace tombolo::probe {

ProbedLinks probe_links(const collectives::Options& options, const LinkProbeOptions& probe) {
  auto communicator = collectives::Communicator::create(options);
  return probe_links(*communicator, options, probe);
}

ProbedLinks probe_links(collectives::Communicator& communicator, const collectives::Options& options,
                        const LinkProbeOptions& probe) {
  Player player(communicator, options, probe);
  const auto steps = pair_steps(player.hosts());
  player.expect(steps.size());
  const Played played = player.play(steps, Load::kOwn);

  ProbedLinks probed;
  PairRates rates;
  std::size_t index = 0;
  for (const Step& step : steps) {
    for (const Meeting& meeting : step) {
      const std::string& trouble = played.troubles[index];
      const double there = played.there(index), back = played.back(index), latency = played.latency(index);
      ++index;
      const topology::Host &left = player.hosts()[meeting.left], &right = player.hosts()[meeting.right];
      const topology::Nic &left_nic = left.nics[meeting.left_nic], &right_nic = right.nics[meeting.right_nic];
      if (!trouble.empty()) {
        probed.failures.push_back(
            {left.name, left_nic.name, right.name, right_nic.name, left_nic.fabric, trouble});
        continue;
      }
      rates.add(meeting, there, back);
      probed.links.push_back({left.name, left_nic.name, right.name, right_nic.name, there, latency, true});
      probed.links.push_back({right.name, right_nic.name, left.name, left_nic.name, back, latency, true});
    }
  }
  topology::ClusterFile cluster;
  cluster.hosts = player.hosts();
  cluster.links = probed.links;
  probed.islands = find_islands(cluster);
  name_clusters(cluster, probed.islands);
  probe_under_load(player, cluster, rates, probed);
  player.finish();
  return probed;
}

}  // namespace tombolo::probe
