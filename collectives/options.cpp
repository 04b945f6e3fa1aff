#include "collectives/options.h"

#include "base/error.h"
#include "collectives/discovery/network_facts.h"
#include "collectives/gpu/kernel_image.h"
#include "collectives/gpu/reducer.h"
#include "collectives/parameters.h"
#include "collectives/rendezvous/rendezvous_address.h"
#include "compute/instruction_set.h"
#include "topology/detect.h"
#include "topology/files/cluster_file.h"

namespace tombolo::collectives {
namespace {

Log log_from_environment() {
  const std::string level = kLogParameter.choice();
  for (const auto one : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kTrace}) {
    if (level == log_level_name(one)) return Log::to_stderr(one);
  }
  return {};
}

void set_discovery(Options& options, const std::string& value) {
  options.discover = value != "off";
  if (value.find('/') != std::string::npos) {
    options.islands_file = value;
  } else if (value != "on" && value != "off") {
    fail(Cause::kInvalidUsage, "{}='{}': expected on, off, or the name of a file with a / in it",
         kDiscoverParameter.name, value);
  }
}

void set_gpu_reduce(Options& options) {
  if (kGpuReduceParameter.choice() != "on") return;
  if (!gpu::kernel_image().empty()) {
    options.gpu_reduce_from = gpu::kReduceFrom;
  } else {
    options.log.warning("{}=on, but this library was built without nvcc: the processor makes all sums",
                        kGpuReduceParameter.name);
  }
}

}  // namespace

std::string_view routing_name(Routing routing) noexcept {
  return routing == Routing::kPerPeer ? "per-peer" : "shared";
}

Routing routing_from_name(std::string_view name, std::string_view setting) {
  for (const auto one : {Routing::kPerPeer, Routing::kShared}) {
    if (name == routing_name(one)) return one;
  }
  fail(Cause::kInvalidUsage, "{}='{}': expected per-peer or shared", setting, name);
}

Progress progress_from_name(std::string_view name, std::string_view setting) {
  if (name == "caller") return Progress::kCaller;
  if (name == "thread") return Progress::kThread;
  fail(Cause::kInvalidUsage, "{}='{}': expected caller or thread", setting, name);
}

Duration deadline_from(double seconds, std::string_view setting) {
  if (!(seconds > 0) || seconds > 1e6) {
    fail(Cause::kInvalidUsage, "{}={}: expected seconds above 0, at most 1000000", setting, seconds);
  }
  return from_seconds(seconds);
}

Duration stuck_after_from(double seconds, std::string_view setting) {
  return seconds == 0 ? Duration::zero() : deadline_from(seconds, setting);
}

transport::Secret secret_from_environment() {
  const std::string secret = kSecretParameter.text();
  return secret.empty() ? transport::Secret() : transport::Secret::from_text(secret);
}

Options Options::from_environment() {
  const Identity identity = Identity::from_environment();
  Options options = settings_from_environment();
  options.identity = identity;
  options.make_secret = kSecretParameter.text().empty();
  options.secret = secret_from_environment();
  if (options.make_secret && identity.size > 1 && identity.rank == 0 && !is_loopback(identity.address)) {
    options.log.warning(
        "{} is not set. Connections between ranks are authenticated by a random secret of this job, but the "
        "store at {}:{} hands it to anyone: who can connect there, or listen on the way, may join, disturb "
        "or end the job. To close this, set {} to the same text, hard to guess, on every rank, or let a "
        "firewall keep others from that port",
        kSecretParameter.name, identity.address, identity.port, kSecretParameter.name);
  }
  return options;
}

Options Options::settings_from_environment() {
  Options options;
  options.log = log_from_environment();
  compute::instruction_set();  // refuses a wrong choice here, and not in the middle of a reduction
  options.deadline = deadline_from(kDeadlineParameter.seconds(), kDeadlineParameter.name);
  options.stuck_after = stuck_after_from(kStuckAfterParameter.seconds(), kStuckAfterParameter.name);
  options.routing = routing_from_name(kRoutingParameter.choice(), kRoutingParameter.name);
  options.progress = progress_from_name(kProgressParameter.choice(), kProgressParameter.name);
  options.algorithm = kAlgorithmParameter.choice();
  options.compression = compression_from_name(kCompressionParameter.choice(), kCompressionParameter.name);
  options.tuning_file = kTuningParameter.text();
  options.tuning.segment_bytes = kSegmentParameter.size();
  if (kHostLimitParameter.is_set()) options.host_limit = kHostLimitParameter.size();
  if (options.tuning.segment_bytes == 0) {
    fail(Cause::kInvalidUsage, "{}=0: a piece has at least one byte", kSegmentParameter.name);
  }
  set_gpu_reduce(options);
  set_discovery(options, kDiscoverParameter.text());

  topology::DetectOptions detect;
  detect.log = options.log;
  const auto host = topology::local_host(detect);
  if (auto cluster = topology::cluster_file_from_environment()) {
    options.cluster_file_digest = digest_of(*cluster);
    options.cluster_file = std::make_shared<const topology::ClusterFile>(*std::move(cluster));
  }
  options.router = transport::RouterOptions::from_environment(options.cluster_file.get());
  options.router.host = host;
  options.router.log = options.log;
  return options;
}

}  // namespace tombolo::collectives
