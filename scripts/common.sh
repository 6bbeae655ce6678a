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

# build PRESET TARGET...: configures when needed and brings the targets up to date.
build() {
  local preset=$1 folder=$root/build/$1
  shift
  if [[ ! -e $folder/build.ninja || $root/CMakePresets.json -nt $folder/build.ninja ]] ||
    ! grep -sqxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
    say "configuring build/$preset"
    (cd "$root" && cmake --fresh --preset "$preset") >&2
  fi
  # Asked first because ninja has a word to say even when there is nothing to do.
  if [[ $(ninja -C "$folder" -n "$@") != *"no work to do"* ]]; then
    say "building build/$preset"
    ninja -C "$folder" -k 0 "$@" >&2
  fi
}

# Two calls at the same time must not build in the same folder.
lock() {
  mkdir -p "$root/build"
  exec 9>"$root/build/.lock"
  flock 9
}
unlock() { exec 9>&-; }
