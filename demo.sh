#!/usr/bin/env bash
# From a bare Debian 12 machine to a GPT training across two (emulated) clusters:  ./demo.sh [tombolo demo's options]
# Installs what is missing, builds the `tombolo` command into build/, runs `tombolo demo`. Repeatable; the second time only
# the demo runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/build.sh --check release
scripts/dependencies.sh build
installed=$SECONDS
scripts/build.sh release tombolo
built=$SECONDS

# Beside this script, so that whoever ends the script ends the demo too. Ctrl-C reaches both; the demo tidies up after it.
# The traps come first: the demo may be up, and whoever waits for that at work, before the next line is reached.
trap 'if [ -n "${!:-}" ]; then kill -TERM $!; else exit 143; fi' TERM HUP
(trap - INT; exec build/bin/tombolo demo "$@") <&0 &
trap : INT
status=0
wait $! || status=$?
while kill -0 $! 2> /dev/null; do  # a signal ended the wait only
  status=0
  wait $! || status=$?
done
outcome=done
[ "$status" -eq 0 ] || outcome="ended with exit code $status"
echo "==> ./demo.sh: installed in $installed s, built in $((built - installed)) s, demo $outcome in $((SECONDS - built)) s" >&2
exit "$status"
