#!/usr/bin/env bash
# Installs what is missing from the Debian 12 / Ubuntu 24.04 packages that Whisker is built from.
#   scripts/install_packages.sh [build|test|long]      test adds what ./run-tests needs, long what its --long does
# Asks for root (directly or through sudo) only when something is missing.
set -euo pipefail
what=${1:-build}

packages=(g++ cmake ninja-build libfmt-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev
          libjpeg-dev libstb-dev libutf8proc-dev libwebp-dev libonnx-dev libprotobuf-dev)
# What CMakeLists.txt takes for WHISKER_ONEDNN. libdnnl-dev's own CMake files ask for OpenCL, which it only recommends.
if [ "$(uname -m)" = x86_64 ]; then
  packages+=(libdnnl-dev ocl-icd-opencl-dev)
else
  packages+=(libopenblas-openmp-dev)
fi
if [ "$what" != build ]; then
  packages+=(libopenblas-openmp-dev libgtest-dev libgmock-dev zlib1g-dev ccache git python3 python3-venv curl
             openmpi-bin libjpeg-turbo-progs webp unzip clang-16 libclang-rt-16-dev
             zsh fish dpkg-dev file)
  # The tests of HTML pages skip without it. Ubuntu's is a snap.
  if grep -qx 'ID=debian' /etc/os-release; then packages+=(chromium fonts-dejavu-core); fi
fi
if [ "$what" = long ] && [ "$(uname -m)" = x86_64 ]; then packages+=(g++-aarch64-linux-gnu qemu-user); fi

missing=()
for package in "${packages[@]}"; do
  # A virtual name (libjpeg-dev on some releases) counts as installed when something provides it.
  dpkg-query -W -f='${Status}\n${Provides}\n' "$package" 2>/dev/null | grep -q '^install ok installed' ||
    dpkg-query -W -f='${Status} ${Provides}\n' 2>/dev/null | grep '^install ok installed' | grep -qw -- "$package" ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "Installing: ${missing[*]}" >&2
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "These packages are missing and need root to install: ${missing[*]}" >&2
    echo "Run as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
install() { "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@" >&2; }
needed=()
for package in "${missing[@]}"; do [ "$package" = chromium ] || needed+=("$package"); done
[ ${#needed[@]} -eq 0 ] || install "${needed[@]}"
if [ ${#needed[@]} -lt ${#missing[@]} ]; then
  install chromium || echo "chromium could not be installed: the tests of HTML pages are skipped" >&2
fi
