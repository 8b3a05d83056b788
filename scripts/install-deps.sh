#!/usr/bin/env bash
# Installs every Debian 12 package that Kiln's build, tests and checks need. As root, or with sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config           # build
  llvm-22-dev lld-22 libzstd-dev zlib1g-dev  # code generator, linker, and what LLVM's CMake files name
  libonnx-dev libprotobuf-dev protobuf-compiler
  libxxhash-dev libsqlite3-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libre2-dev libunistring-dev                # operators on text
  libgtest-dev libgmock-dev libbenchmark-dev
  clang-format-22 clang-tidy-22              # checks
  clang-22 libclang-rt-22-dev                # fuzzers
  libopenblas-dev libdnnl-dev                # peers of bench/gemm
  python3 python3-numpy python3-onnx         # model generators and checks
  libonnx-testdata
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
export DEBIAN_FRONTEND=noninteractive
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
