// The `tombolo` command: every subcommand lives in a file of its own beside this one.
#include "tools/cli/command.h"

int main(int argc, char** argv) {
  using namespace tombolo::tools;
  CommandLine tombolo;
#define TOMBOLO_COMMAND(name) add_##name(tombolo);
#include "tools/cli/commands.inc"
#undef TOMBOLO_COMMAND
  return tombolo.run(argc, argv);
}
