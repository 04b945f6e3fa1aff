// Options of a subcommand from a JSON file.
#pragma once

namespace CLI {
class App;
}

namespace tombolo::tools {

/// Gives `app` the option --config FILE: a JSON object with a member for each option, named as the option is
/// but without dashes before it; "micro_batch" stands for "micro-batch" too. An option that is on the command
/// line wins. To be called before the app's other options are added, since options are taken in that order.
/// While parsing, throws kInvalidUsage naming file, line and member: no such option, or a value that the
/// option refuses.
void add_json_config(CLI::App& app);

}  // namespace tombolo::tools
