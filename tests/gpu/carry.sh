#!/usr/bin/env bash
# Build the folder that brings SGLang to a GPU machine without a package registry, for tests/gpu.
#
#   tests/gpu/carry.sh FOLDER    writes FOLDER/site.tar.xz, jit.py and env.sh; bring FOLDER along with the checkout
#
# There, in the checkout: `. FOLDER/env.sh`, then `python3 FOLDER/jit.py 16 64 2 128 1024 8`, then the tests. The machine needs
# Python 3.12, torch 2.11 for CUDA 13, triton, transformers, nvcc and ninja. Here: pip, tar and xz.
set -euo pipefail
here=$(cd "$(dirname "$0")/carry" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

platforms=()
for tag in 2_5 2_12 2_17 2_24 2_26 2_27 2_28 2_31 2_34 2_35; do platforms+=(--platform "manylinux_${tag}_x86_64"); done
for tag in manylinux1 manylinux2010 manylinux2014; do platforms+=(--platform "${tag}_x86_64"); done
python3 -m pip install -q --no-deps --no-compile --ignore-requires-python --only-binary=:all: --python-version 3.12 --implementation cp \
    "${platforms[@]}" --target "$work/site" sglang==0.5.23 -r "$here/packages.txt"

# Image and video generation, tests, and extensions built for another torch are not used.
cd "$work/site"
rm -rf bin sglang/multimodal_gen sglang/test sglang/benchmark
find sglang -name '*.so' -delete
find . -name '*_cu12.abi3.so' -delete

# sgl_kernel needs another torch; the dual GEMM serves Blackwell only and imports a package of 100 MB.
cp -r "$here/sgl_kernel" .
cp "$here/cutedsl_dual_gemm.py" sglang/kernels/ops/gemm/

tar -cf - . | xz -6 -T0 >"$out/site.tar.xz.new"
mv "$out/site.tar.xz.new" "$out/site.tar.xz"
cp "$here/jit.py" "$here/env.sh" "$out/"
du -h "$out"/*
