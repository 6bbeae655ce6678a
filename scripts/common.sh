# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
# What scripts/gpuinfer and scripts/test share; sourced by them. Everything here talks on stderr.

export PATH="$PATH:/usr/local/cuda/bin"

say() { echo "$(basename "$0"): $*" >&2; }

# packages SCOPE...: the packages of these scopes, one to a line.
packages() {
  local scope name rest
  while read -r scope name rest; do
    if [[ " $* " == *" $scope "* ]]; then echo "$name"; fi
  done <"$root/scripts/packages.txt"
}

as_root() {
  if ((EUID == 0)); then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# install SCOPE...: what is missing of these packages. A machine without dpkg is left to its owner and to CMake's messages.
install() {
  command -v dpkg-query >/dev/null || return 0
  local wanted present missing
  wanted=$(packages "$@" | sort)
  # shellcheck disable=SC2086  # one word for each package
  present=$({ dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null || true; } |
    sed -n 's/^installed //p' | sort)
  missing=$(comm -23 <(echo "$wanted") <(echo "$present") | xargs)
  if [[ -z $missing ]]; then return 0; fi
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    say "packages are missing and neither root nor sudo is at hand; run \`apt-get install $missing\` as root."
    return 1
  fi
  say "installing $missing"
  local get=(apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 install)
  # shellcheck disable=SC2206
  get+=($missing)
  if ! as_root "${get[@]}" --simulate >/dev/null 2>&1 || ! as_root "${get[@]}" >&2; then
    as_root apt-get -qq update >&2
    as_root "${get[@]}" >&2
  fi
}

# configure PRESET OPTION...
configure() {
  say "configuring build/$1"
  (cd "$root" && cmake --preset "$@") >&2
}

# build PRESET TARGET...: configures when needed and brings the targets up to date.
build() {
  local preset=$1 folder=$root/build/$1
  shift
  if ! is_configured "$preset"; then
    configure "$preset" --fresh
  fi
  # Asked first because ninja has a word to say even when there is nothing to do.
  if [[ $(ninja -C "$folder" -n "$@") != *"no work to do"* ]]; then
    say "building build/$preset"
    ninja -C "$folder" -k 0 "$@" >&2
  fi
}

is_configured() {
  local folder=$root/build/$1
  [[ -e $folder/build.ninja && ! $root/CMakePresets.json -nt $folder/build.ninja ]] &&
    grep -sqxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"
}

# The compute capabilities of the GPUs here, as 80;90; all: there is a GPU of NVIDIA or its driver, and they do not say;
# none: there is neither.
gpus_here() {
  local said
  said=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sed -n 's/^ *\([0-9][0-9]*\)\.\([0-9]\) *$/\1\2/p' | sort -nu | paste -sd ';') || true
  if [[ -n $said ]]; then
    echo "$said"
  elif grep -sq '^0x10de$' /sys/bus/pci/devices/*/vendor || [[ -e /dev/nvidiactl || -e /dev/dxg ]]; then
    echo all
  else
    echo none
  fi
}

# both GPUS GPUS: what is built for the one and the other.
both() {
  if [[ $1 == all || $2 == all ]]; then
    echo all
  elif [[ $1 == none || $2 == none ]]; then
    if [[ $1 == none ]]; then echo "$2"; else echo "$1"; fi
  else
    tr ';' '\n' <<<"$1;$2" | sort -nu | paste -sd ';'
  fi
}

# Where cmake/Cuda.cmake looks for it.
has_nvcc() {
  local place
  for place in "${CUDACXX:-}" "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc"; do
    if [[ -x $place ]]; then return 0; fi
  done
  command -v nvcc >/dev/null
}

# build_program: preset `release`, whose CUDA probe is for GPUs that were here when this folder was used, on whichever
# machine, and for those of $GPUINFER_GPUS: each that comes adds its code, none takes that of others away.
build_program() {
  local cache=$root/build/release/CMakeCache.txt built wanted here
  built=$(sed -n 's/^GPUINFER_GPUS:STRING=//p' "$cache" 2>/dev/null) || true
  wanted=all
  if [[ $built != all ]]; then
    here=${GPUINFER_GPUS:-$(gpus_here)}
    # GPUs that do not answer now may be those that the folder is built for.
    if [[ $here == all && -z ${GPUINFER_GPUS:-} && ${built:-none} != none ]]; then here=$built; fi
    wanted=$(both "${built:-none}" "$here")
  fi
  if ! is_configured release; then
    configure release --fresh -D "GPUINFER_GPUS=$wanted"
  elif [[ $wanted != "$built" ]]; then
    if has_nvcc; then
      configure release -D "GPUINFER_GPUS=$wanted"
    else
      say "the CUDA probe is not built for the GPU of this machine, and nvcc is not here;" \
        "run \`GPUINFER_GPUS='$wanted' scripts/gpuinfer doctor\` where it is."
    fi
  fi
  build release gpuinfer
}

# Two calls at the same time must not build in the same folder.
lock() {
  mkdir -p "$root/build"
  exec 9>"$root/build/.lock"
  flock 9
}
unlock() { exec 9>&-; }
