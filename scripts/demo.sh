#!/usr/bin/env bash
# Installs what is missing, builds and installs Kiln into build/demo, builds examples/digits against it, and
# reads real handwritten digits twice: the first process compiles its kernels, the second finds them all cached.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)" --target kiln kiln_command

demo=$PWD/build/demo
cmake --install build/release --prefix "$demo/prefix" >/dev/null
cmake -G Ninja -S examples/digits -B "$demo/digits" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$demo/prefix"
cmake --build "$demo/digits"

cache=$demo/kernels.sqlite
rm -f "$cache" "$cache"-*
echo "== first process, empty kernel cache"
"$demo/digits/digits" examples/digits --cache "$cache"
echo "== second process: must compile nothing"
"$demo/digits/digits" examples/digits --cache "$cache" --warm
echo "== the same model through the command"
"$demo/prefix/bin/kiln" bench examples/digits/digits_cnn.onnx --dim batch=8 --cache "$cache"
