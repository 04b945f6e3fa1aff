#include "net_plugin/profiler/parameters.h"

#include "base/error.h"
#include "net_plugin/host_name.h"
#include "transport/observe/report/reporting.h"

namespace tombolo::net_plugin {

const Parameter kProfilerParameter{
    "TOMBOLO_PROFILER", ParameterType::kText, "",
    "What the plugin's NCCL profiler records of NCCL's messages: a timeline for Perfetto or chrome://tracing "
    "(trace, or trace:PATH with %h for the host's name and %p for the process's number; by default "
    "tombolo-profile-%h-%p.json), or sums by peer and channel, logged when a communicator ends and shown "
    "with "
    "the meters of connections (meters)."};

ProfilerSettings ProfilerSettings::from_environment() {
  constexpr std::string_view kWithPath = "trace:";
  const std::string text = kProfilerParameter.text();
  std::string pattern = "tombolo-profile-%h-%p.json";
  if (text.empty() || text == "off") return {};
  if (text == "meters") return {Mode::kMeters, {}};
  if (text.starts_with(kWithPath) && text.size() > kWithPath.size()) {
    pattern = text.substr(kWithPath.size());
  } else if (text != "trace") {
    fail(Cause::kInvalidUsage, "{}='{}': expected trace, trace:PATH, meters or off", kProfilerParameter.name,
         text);
  }
  return {Mode::kTrace, transport::report::expand_pattern(pattern, own_host_name(), kProfilerParameter.name)};
}

}  // namespace tombolo::net_plugin
