#include "planner/launch/group_networks_file.h"

#include <fmt/format.h>

namespace tombolo::planner {

GroupNetworksFile group_networks_file(const NetworkNeeds& needs, std::string_view argument) {
  const std::string groups = argument.empty() ? "" : group_networks(needs);
  if (groups.empty()) return {"", "exec ", "", ""};
  return {
      "groups=\n"
      "if [ \"$NETWORK\" = mixed ]; then\n"
      "  groups=$(mktemp) || exit 1\n"
      "  trap 'rm -f \"$groups\"' EXIT\n"
      "  cat > \"$groups\" <<'END'\n" +
          groups +
          "END\n"
          "fi\n"
          // A signal that comes before the program is known is passed on once it is.
          "program= stop=\n"
          "trap 'stop=1; [ -z \"$program\" ] || kill -TERM \"$program\" 2>/dev/null' HUP INT TERM\n",
      "", fmt::format(" \\\n  ${{groups:+{}\"$groups\"}}", argument),
      " &\nprogram=$!\n"
      "[ -z \"$stop\" ] || kill -TERM \"$program\" 2>/dev/null\n"
      "wait \"$program\"; status=$?\n"
      "while kill -0 \"$program\" 2>/dev/null; do wait \"$program\"; status=$?; done\n"
      // The wait that a signal ended may have seen the program's end too, which the shell then keeps for the
      // next.
      "wait \"$program\" 2>/dev/null; kept=$?\n"
      "[ \"$kept\" -eq 127 ] || status=$kept\n"
      "exit \"$status\""};
}

}  // namespace tombolo::planner
