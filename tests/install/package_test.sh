#!/usr/bin/env bash
# Makes the .deb of a build, installs it in a root of its own, and draws, trains and classifies there. The root holds a
# shell and what the package says it depends on, of this system's packages, and nothing else. Where no root can be made,
# the package is unpacked and runs from there.
#   package_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
for tool in dpkg-deb dpkg-shlibdeps file apt-cache; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool (packages dpkg, dpkg-dev, file, apt)"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
logged() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }; }
logged cpack --config "$build/CPackConfig.cmake" -G DEB -B "$scratch/package"
deb=$(echo "$scratch"/package/*.deb)
name=whisker_$(dpkg-deb -f "$deb" Version)_$(dpkg --print-architecture).deb
[ "$(basename "$deb")" = "$name" ] || { echo "got: $deb"; exit 1; }
# Each script that README and the guides name is in it.
dpkg-deb -c "$deb" | awk '{print $6}' >"$scratch/files"
for script in $(grep -ohE 'scripts/[a-z_]+\.sh' "$source/README.md" "$source"/docs/guide/*.md | sort -u); do
  grep -qx "./usr/share/whisker/$script" "$scratch/files" || { echo "$script is not in the package"; exit 1; }
done
for file in course.h course_runner.h exercises/mul/answer.cpp exercises/mul/hints.md solutions/mul.cpp 01_chain_rule.md; do
  grep -qx "./usr/share/whisker/course/$file" "$scratch/files" || { echo "course/$file is not in the package"; exit 1; }
done

# Writes this system's files of the packages "$@" and of those they depend on to the root, and dpkg's record of them.
make_root() {
  local packages file
  mapfile -t packages < <(apt-cache depends --recurse --installed --important "$@" |
    sed -n 's/^\([a-z0-9][^ :]*\).*/\1/p' | sort -u)
  mkdir -p "$root"/{dev,proc,tmp,usr} "$root"/var/lib/dpkg/{info,updates,triggers}
  for file in bin lib lib64 sbin; do
    [ ! -L "/$file" ] || { mkdir -p "$root/usr/$file" && ln -s "usr/$file" "$root/$file"; }
  done
  dpkg-query -L "${packages[@]}" | grep '^/.' | sort -u | while IFS= read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || printf '%s\0' "${file#/}"
  done | tar -C / --null --no-recursion -T - -c | tar -C "$root" --no-same-owner -x
  dpkg-query -s "${packages[@]}" >"$root/var/lib/dpkg/status"
  for file in "${packages[@]}"; do
    cp /var/lib/dpkg/info/"$file"{,:*}.list "$root/var/lib/dpkg/info" 2>/dev/null || true
  done
}

# The mount of /proc ends with the command that runs there.
as_root=(unshare --mount --propagation private)
[ "$(id -u)" -eq 0 ] || as_root+=(--map-root-user)
in_new_root='mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'
if "${as_root[@]}" bash -c "$in_new_root" / true 2>/dev/null; then
  # Of "a (>= 1) | b, c" the packages a and c.
  read -ra depends < <(dpkg-deb -f "$deb" Depends | sed -E 's/\|[^,]*//g; s/\([^)]*\)//g; s/,/ /g')
  make_root bash dash libc-bin coreutils "${depends[@]}"  # what every system has
  logged "${as_root[@]}" dpkg --root="$root" --install "$deb"
  in_root() { "${as_root[@]}" bash -c "$in_new_root" "$root" "$@"; }
  whisker=/usr/bin/whisker
else
  echo "no root of its own can be made here: unpacked instead"
  dpkg-deb -x "$deb" "$root"
  mkdir -p "$root/tmp"
  in_root() { "$@"; }
  whisker=$root/usr/bin/whisker
fi
cat >"$root/tmp/commands" <<COMMANDS
set -eu
mkdir -p "\$1/work" && cd "\$1/work"
export HOME="\$1/work"
$whisker --version
$whisker data generate drawn --per-class 8 --val-per-class 2 --seed 7
$whisker train --data drawn train.epochs=1 data.image_size=32
$whisker classify runs/drawn/best.safetensors drawn/val --jsonl
$whisker models mobilenet_v2
COMMANDS
folder=/tmp
[ "$whisker" = /usr/bin/whisker ] || folder=$root/tmp
in_root /bin/bash "$folder/commands" "$folder" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
[ "$(grep -c '^{"path":' "$scratch/log")" = 4 ] || { cat "$scratch/log"; exit 1; }
grep -q '/usr/share/whisker/scripts/fetch_weights.sh mobilenet_v2' "$scratch/log" || { cat "$scratch/log"; exit 1; }
