#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests. The last line is ctest's verdict.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)"

report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
ctest --preset release -j "$(nproc)" 2>&1 | tee "$report" || status=$?
grep 'tests passed' "$report" | tail -n 1
exit "$status"
