#include "tools/launch/launch_flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "tools/cli/validators.h"

namespace tombolo::tools {

void LaunchFlags::add_to(CLI::App& app) {
  app.add_option("-n,--ranks", ranks,
                 "Ranks to start (default: one per device of the emulated hosts, else 1)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--emulate", emulate,
                 "holmes, two-clusters, two-paths, or a spec.json: start the ranks on emulated hosts");
  app.add_option("--order", order,
                 "Which rank is on which host: block, interleaved, or h1,h2,... (default: block)");
  app.add_option("--routing", routing,
                 "per-peer: each connection over the best NICs its two ends share; shared: all "
                 "over the kind of NIC that every rank has")
      ->check(CLI::IsMember({"per-peer", "shared"}));
  app.add_option("--env", variables, "K=V: a variable for every rank; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--timeout", timeout_seconds, "Seconds after which the ranks are ended (exit code 124)")
      ->check(above_zero);
  app.add_option(
         "--grace", grace_seconds,
         "Seconds that ranks have to end when they are asked to, such as to finish a checkpoint, before "
         "they are killed; a second signal kills them at once")
      ->check(above_zero)
      ->capture_default_str();
  app.add_option("--emulation-mode", mode,
                 "auto: namespaces where permitted, else loopback; or one of the two")
      ->check(CLI::IsMember({"auto", "namespaces", "loopback"}))
      ->capture_default_str();
  app.add_flag("--quiet", quiet, "Print only rank 0's lines, without \"[rank] \" before them");
}

PreparedLaunch prepare_launch(const LaunchFlags& flags, std::vector<std::string> program) {
  PreparedLaunch prepared;
  LaunchOptions& options = prepared.options;
  options.program = std::move(program);
  options.output = flags.quiet ? Output::kRankZero : Output::kPrefixed;
  if (!flags.routing.empty()) options.environment.emplace_back("TOMBOLO_ROUTING", flags.routing);
  for (const std::string& entry : flags.variables) {
    std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) {
      fail(Cause::kInvalidUsage, "--env '{}': expected NAME=VALUE", entry);
    }
    options.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  if (flags.timeout_seconds > 0) options.timeout = from_seconds(flags.timeout_seconds);
  options.grace = from_seconds(flags.grace_seconds);
  options.ranks = std::max(flags.ranks, 1);
  if (flags.emulate.empty()) {
    if (!flags.order.empty()) {
      fail(Cause::kInvalidUsage, "--order says which rank is on which emulated host; it needs --emulate");
    }
    return prepared;
  }
  emulation::Spec spec = emulation::Spec::from_text(flags.emulate);
  if (flags.ranks == 0) options.ranks = spec.devices();
  prepared.emulation = emulation::Emulation::start(spec, {emulation::parse_mode(flags.mode), {}});
  options.emulation = prepared.emulation.get();
  options.rank_hosts = map_ranks(flags.order, prepared.emulation->cluster().hosts, options.ranks);
  fmt::print(stderr, "tombolo: {}\n", prepared.emulation->description());
  return prepared;
}

int launch_and_report(const LaunchOptions& options, std::string_view command) {
  std::fflush(stdout);
  LaunchResult result = launch(options);
  if (!result.message.empty()) fmt::print(stderr, "tombolo {}: {}\n", command, result.message);
  return result.exit_code;
}

}  // namespace tombolo::tools
