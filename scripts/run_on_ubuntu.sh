#!/usr/bin/env bash
# Runs a command in a bare Ubuntu 24.04, on a Debian whose compiler and libraries are older; as root.
#   scripts/run_on_ubuntu.sh [COMMAND [ARGUMENT...]]   ./run-tests --quick without one: an hour of two cores at first
# It runs in a clone of this checkout's last commit, in a root folder of its own ($WHISKER_UBUNTU_ROOT, else
# build/ubuntu), which keeps packages, builds and the compiler's cache. $WHISKER_DATA is mounted there, read-only. All
# mounts end with the command.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(realpath -m "${WHISKER_UBUNTU_ROOT:-build/ubuntu}")
data=$(realpath "${WHISKER_DATA:-../shared/data}")
archive=http://archive.ubuntu.com/ubuntu
if [ "$(id -u)" -ne 0 ]; then
  echo "run_on_ubuntu: must be root, to mount and to change the root folder" >&2
  exit 1
fi

if [ ! -f "$root/whisker/run-tests" ]; then
  command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >&2
  keys=$(mktemp -d)
  trap 'rm -rf "$keys"' EXIT
  curl -fsS -o "$keys/deb" "$archive/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
  echo "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8 $keys/deb" | sha256sum --check --quiet
  dpkg-deb -x "$keys/deb" "$keys"
  # Ubuntu's script has the same name for every release; Debian 12 does not know this one.
  debootstrap --variant=minbase --keyring="$keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
    noble "$root" "$archive" gutsy >&2
  for suite in noble noble-updates noble-security; do echo "deb $archive $suite main universe"; done \
    >"$root/etc/apt/sources.list"
  git clone -q . "$root/whisker"
fi
git -C "$root/whisker" fetch -q "$PWD" HEAD
git -C "$root/whisker" checkout -q --detach FETCH_HEAD
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/shared/data" "$root/etc/ssl"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/of_host.crt"  # pip brings its own, which a proxy's are not among

[ $# -gt 0 ] || set -- ./run-tests --quick
export root data
unshare --mount --propagation private bash -euc '
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --bind "$data" "$root/shared/data"
  mount -o remount,bind,ro "$root/shared/data"
  exec env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 PIP_CERT=/etc/ssl/of_host.crt \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$root" bash -c "cd /whisker && exec \"\$@\"" -- "$@"' -- "$@"
