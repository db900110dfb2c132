#!/usr/bin/env bash
# Speed on a bare machine with a GPU, unattended, in less than eight minutes:
#
#     benchmarks/vulkan_device.sh WHEELS OUT [MODEL.gguf ...]
#
# WHEELS is a folder, carried there, with golem-host's wheel and those that it wants here for that machine's Python:
#
#     pip wheel --no-deps -w WHEELS .
#     pip download --no-deps --only-binary=:all: -d WHEELS cffi numpy pluggy pycparser
#
# The table is written to OUT after every model. Without models two of true shape and random weights are made. What the
# machine must have: Python, pip, a Vulkan loader and a driver; llama.cpp's Vulkan build is measured beside when
# GOLEM_LLAMA_VULKAN names its folder. Exits 1 when there is no device.
set -euo pipefail

if [ $# -lt 2 ]; then
    sed -n '2,4p' "$0" >&2
    exit 2
fi
wheels=$(realpath "$1") out=$(realpath "$2")
shift 2
models=()
for model in "$@"; do models+=("$(realpath "$model")"); done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$work/site" XDG_CACHE_HOME="$work/cache"
# One at a time: wheels of another machine are left out without stopping the others.
for wheel in "$wheels"/*.whl; do
    python3 -m pip install -qq --root-user-action ignore --upgrade --no-index --no-deps --target "$work/site" "$wheel" || echo "$wheel: left out" >&2
done
cd "$(dirname "$0")"

python3 -m golem_host devices
if [ ${#models[@]} -eq 0 ]; then models=(--shapes qwen3-0.6b,qwen3-4b); fi
timeout 440 python3 vulkan.py --folder "$work" --out "$out" "${models[@]}" ||
    { echo "stopped early; what was measured is in $out" >&2; exit 1; }
