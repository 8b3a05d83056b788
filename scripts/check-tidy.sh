#!/usr/bin/env bash
# Runs clang-tidy over the sources, in parallel: all of them, those that differ from a commit (--changed REF),
# or the files named.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/release
if [ ! -f $build/compile_commands.json ]; then cmake --preset release >/dev/null; fi
cmake --build $build --target kiln_generated >/dev/null 2>&1

wanted='.*'
if [ "${1:-}" = --changed ]; then
  wanted=$(git diff --name-only "${2:-main}" -- '*.cc' | paste -sd '|')
  if [ -z "$wanted" ]; then echo "tidy: nothing changed"; exit 0; fi
elif [ $# -gt 0 ]; then
  wanted=$(printf '%s\n' "$@" | paste -sd '|')
fi
mapfile -t files < <(/usr/bin/python3 - "$wanted" <<'PYTHON'
import json, os, re, sys
root = os.getcwd() + "/"
names = {entry["file"] for entry in json.load(open("build/release/compile_commands.json"))}
for name in sorted(names):
    path = os.path.relpath(name, root)
    if not path.startswith(("build/", "..")) and re.fullmatch(sys.argv[1], path):
        print(path)
PYTHON
)
# The compile commands are g++'s; clang need not know all its warnings, nor warn itself.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  clang-tidy-22 -p $build --quiet --extra-arg=-w --extra-arg=-Wno-unknown-warning-option
echo "tidy: ${#files[@]} files are fine"
