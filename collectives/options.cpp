#include "base/error.h"
#include "collectives/communicator.h"
#include "collectives/parameters.h"
#include "topology/cluster_file.h"
#include "topology/detect.h"

namespace tombolo::collectives {
namespace {

Log log_from_environment() {
  const std::string level = kLogParameter.choice();
  for (const auto one : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kTrace}) {
    if (level == log_level_name(one)) return Log::to_stderr(one);
  }
  return {};
}

}  // namespace

Options Options::from_environment() {
  Options options;
  options.log = log_from_environment();
  options.identity = Identity::from_environment();
  options.secret = transport::Secret::from_text(kSecretParameter.text());
  if (!kSecretParameter.is_set() && options.identity.size > 1 && options.identity.address != "127.0.0.1") {
    options.log.warning("{} is not set: whoever reaches {} may join this job", kSecretParameter.name,
                        options.identity.address);
  }
  const double deadline = kDeadlineParameter.seconds();
  if (!(deadline > 0) || deadline > 1e6) {
    fail(Cause::kInvalidUsage, "{}={}: expected seconds above 0, at most 1000000", kDeadlineParameter.name,
         deadline);
  }
  options.deadline = from_seconds(deadline);
  options.routing = kRoutingParameter.choice() == "shared" ? Routing::kShared : Routing::kPerPeer;
  const std::string algorithm = kAlgorithmParameter.choice();
  options.algorithm = algorithm == "ring"        ? Algorithm::kRing
                      : algorithm == "two-level" ? Algorithm::kTwoLevel
                                                 : Algorithm::kAuto;
  options.tuning.segment_bytes = kSegmentParameter.size();
  if (options.tuning.segment_bytes == 0) {
    fail(Cause::kInvalidUsage, "{}=0: a piece has at least one byte", kSegmentParameter.name);
  }

  topology::DetectOptions detect;
  detect.log = options.log;
  options.router.host = topology::local_host(detect);
  options.router.policy = transport::Policy::from_environment();
  if (const auto cluster = topology::cluster_file_from_environment()) {
    options.router.policy.unreachable = cluster->unreachable;
    if (cluster->require == "rdma") options.router.policy.require_rdma = true;
  }
  options.router.tcp = transport::TcpOptions::from_environment();
  options.router.limits = transport::nic_limits_from_environment();
  options.router.log = options.log;
  return options;
}

}  // namespace tombolo::collectives
