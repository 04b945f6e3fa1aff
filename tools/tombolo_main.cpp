// The `tombolo` command. Each subcommand is a file in tools/commands/ and a line in tools/cli/commands.inc.
#include "tools/cli/command.h"

int main(int argc, char** argv) {
  using namespace tombolo::tools;
  CommandLine tombolo;
#define TOMBOLO_COMMAND(name) add_##name(tombolo);
#include "tools/cli/commands.inc"
#undef TOMBOLO_COMMAND
  return tombolo.run(argc, argv);
}
