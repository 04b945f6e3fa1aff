#!/usr/bin/env bash
# From a bare Debian 12 machine to a GPT training across two (emulated) clusters:  ./demo.sh [tombolo demo's options]
# Installs what is missing, builds into build/, runs `tombolo demo`. Repeatable; the second time only the demo runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/dependencies.sh build
scripts/build.sh release
exec build/bin/tombolo demo "$@"
