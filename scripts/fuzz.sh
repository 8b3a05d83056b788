#!/usr/bin/env bash
# Builds the fuzzers and runs each for a time: scripts/fuzz.sh [SECONDS [NAME...]], 30 seconds of model and tile if not
# said otherwise. New inputs are kept in build/fuzz/corpus and start the next run. Fails on a finding, on an input that takes
# more than 10 s, and above 2 GiB of memory; what failed is in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
names=("${@:2}")
if [ ${#names[@]} -eq 0 ]; then names=(model tile); fi
if ! command -v clang++-22 >/dev/null ||
  ! compgen -G "$(clang++-22 --print-resource-dir)/lib/*/libclang_rt.fuzzer*" >/dev/null; then
  echo "fuzz: skipped, clang-22 or its fuzzer runtime (libclang-rt-22-dev) is not installed"
  exit 0
fi

build=build/fuzz
cmake --preset fuzz >/dev/null
cmake --build $build -j "$(nproc)" --target "${names[@]/%/_fuzzer}"
declare -A seeds=([model]=tests/fuzz/models [tile]=tests/golden/tile)
# Names that mutations put in place of others.
grep -ohE '[A-Za-z_]+:' ir/graph/ops.def | tr -d ':' | sort -u | sed 's/.*/"&"/' >$build/model.dict
grep -ohE '^KILN_OP\(\w+' ir/graph/ops.def | cut -d'(' -f2 | sort -u | sed 's/.*/"&"/' >>$build/model.dict
grep -hE '^KILN_' ir/tile/*.def | grep -oE '"[a-z0-9_]+"' | sort -u >$build/tile.dict

mkdir -p $build/findings
failed=()
for name in "${names[@]}"; do
  mkdir -p "$build/corpus/$name"
  echo "== fuzz $name for $seconds s"
  # -close_fd_mask=1: what the code under test prints to its output is not of interest.
  if ! "$build/tests/fuzz/${name}_fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
    -dict="$build/$name.dict" -artifact_prefix="$build/findings/$name-" -print_final_stats=1 \
    "$build/corpus/$name" "${seeds[$name]}" >"$build/$name.log" 2>&1; then
    failed+=("$name")
    tail -n 60 "$build/$name.log"
  fi
  grep -E 'stat::(number_of_executed_units|new_units_added|peak_rss_mb)' "$build/$name.log" || true
done
if [ ${#failed[@]} -gt 0 ]; then echo "fuzz: findings by ${failed[*]}"; exit 1; fi
echo "fuzz: no findings"
