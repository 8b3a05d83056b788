#!/usr/bin/env bash
# Checks the layout of all C++ files. --fix rewrites them instead.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(--dry-run --Werror)
if [ "${1:-}" = --fix ]; then mode=(-i); fi

mapfile -t files < <(find api autotune bench examples frontend include ir jit kernels_ref runtime tests tools \
  \( -name '*.h' -o -name '*.cc' \) -not -path '*/.*' 2>/dev/null | LC_ALL=C sort)
printf '%s\0' "${files[@]}" | xargs -0 -n 40 -P "$(nproc)" clang-format-22 "${mode[@]}"
echo "format: ${#files[@]} files are fine"
