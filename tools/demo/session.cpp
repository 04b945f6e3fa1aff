#include "tools/demo/session.h"

#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/units.h"
#include "tools/launch/launcher.h"
#include "tools/process/subprocess.h"

namespace tombolo::tools::demo {
namespace {

[[noreturn]] void out_of_time(const Session& session, std::string_view what) {
  fail(Cause::kTimeout, "{}: the demo's limit of {} passed; a slower machine needs more (--seconds-limit)",
       what, format_seconds(session.options.limit()));
}

}  // namespace

std::string Session::file(std::string_view name) const {
  return fmt::format("{}/{}", emulation.directory(), name);
}

void run_ranks(const Session& session, const RankProgram& program) {
  session.interrupts.check();
  LaunchOptions launch_options;
  launch_options.ranks = static_cast<int>(program.rank_hosts.size());
  launch_options.program = {own_program()};
  launch_options.program.insert(launch_options.program.end(), program.arguments.begin(),
                                program.arguments.end());
  launch_options.emulation = &session.emulation;
  launch_options.rank_hosts = program.rank_hosts;
  launch_options.cluster = program.cluster;
  launch_options.environment = program.environment;
  // With traffic both ways through a token bucket, bbr attained 73 to 100 % of the rate, depending on how it
  // began; cubic attained 87 to 100 %, and nearly always more than 96 %.
  if (std::getenv("TOMBOLO_TCP_CONGESTION") == nullptr)
    launch_options.environment.emplace_back("TOMBOLO_TCP_CONGESTION", "cubic");
  launch_options.output = Output::kSilent;
  launch_options.on_line = program.on_line;
  launch_options.timeout = session.deadline.remaining();
  LaunchResult result = launch(launch_options);
  if (result.exit_code == 0) return;
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    // A rank may also have ended with such a code by itself. Then the result names it, and no interrupt has
    // come.
    if (result.exit_code == 128 + signal_number && result.failed_rank < 0) throw Interrupted{signal_number};
  }
  if (session.deadline.passed()) out_of_time(session, program.what);
  fail(Cause::kSystem, "{} failed: {}", program.what, result.message);
}

std::string run_on_host(const Session& session, std::size_t host_index,
                        const std::vector<std::string>& arguments) {
  session.interrupts.check();
  const std::string& host = session.emulation.cluster().hosts.at(host_index).name;
  std::vector<std::string> program{own_program()};
  program.insert(program.end(), arguments.begin(), arguments.end());
  Finished done = run_program(program, "", session.deadline.remaining(), [&] {
    ::setenv("TOMBOLO_CLUSTER", session.file("emulated.json").c_str(), 1);
    ::setenv("TOMBOLO_HOST", host.c_str(), 1);
    return session.emulation.enter(host_index);
  });
  session.interrupts.check();
  if (session.deadline.passed()) out_of_time(session, "tombolo " + arguments.front());
  if (done.exit_code != 0) {
    fail(Cause::kSystem, "tombolo {} on host {} ended with exit code {}: {}", arguments.front(), host,
         done.exit_code, done.error);
  }
  return done.output;
}

}  // namespace tombolo::tools::demo
