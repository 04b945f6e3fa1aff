// The `tombolo` command: every subcommand lives in a file of its own beside this one.
#include "tools/command.h"

int main(int argc, char** argv) {
  using namespace tombolo::tools;
  CommandLine tombolo;
#define TOMBOLO_COMMAND(name) add_##name(tombolo);
#include "tools/commands.inc"
#undef TOMBOLO_COMMAND
  return tombolo.run(argc, argv);
}
