#!/bin/sh
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
# build.sh CHECKOUT PROGRAM: makes gpgpusim-device of a checkout of GPGPU-Sim, which need not be built. Needs the headers
# of CUDA, in CUDA_INSTALL_PATH or /usr/local/cuda, and those of nlohmann-json.
set -eu
if [ $# -ne 2 ] || [ ! -f "$1/src/gpgpu-sim/gpu-cache.cc" ]; then
  echo "build.sh CHECKOUT PROGRAM; CHECKOUT has src/gpgpu-sim/gpu-cache.cc" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
cuda=${CUDA_INSTALL_PATH:-/usr/local/cuda}
# Of these files the device needs a small part; the linker leaves out the rest with all that they would need.
exec "${CXX:-c++}" -std=c++17 -O2 -w -fpermissive -ffunction-sections -fdata-sections -Wl,--gc-sections -DCUDART_VERSION=11000 \
  -I"$1/src" -I"$1/libcuda" -I"$cuda/include" \
  "$here/gpgpusim_device.cpp" "$1/src/gpgpu-sim/gpu-cache.cc" "$1/src/gpgpu-sim/hashing.cc" "$1/src/gpgpu-sim/gpu-misc.cc" \
  "$1/src/gpgpu-sim/addrdec.cc" "$1/src/option_parser.cc" -ldl -o "$2"
