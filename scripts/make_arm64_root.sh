#!/usr/bin/env bash
# Unpacks the arm64 packages that Whisker is built from into build/arm64-root, for the preset arm64. This system's own
# packages stay as they are: apt's lists, its downloads and its record of what is installed are in build/arm64-apt.
# Ubuntu keeps arm64 on a server of its own. What is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(libc6-dev libgomp1 libfmt-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libjpeg-dev libstb-dev
          libutf8proc-dev libwebp-dev libopenblas-openmp-dev libonnx-dev libprotobuf-dev
          libgtest-dev libgmock-dev zlib1g-dev)
root=$PWD/build/arm64-root apt=$PWD/build/arm64-apt
[ "$(cat "$root/packages" 2>/dev/null)" != "${packages[*]}" ] || exit 0

rm -rf "$root" "$apt"
mkdir -p "$apt"/{lists,archives}/partial "$root"/usr/{bin,lib,sbin}
for folder in bin lib sbin; do ln -s "usr/$folder" "$root/$folder"; done
: >"$apt/status"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=
         -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt")
. /etc/os-release
if [ "$ID" = ubuntu ]; then
  for suite in "" -updates -security; do
    echo "deb http://ports.ubuntu.com/ubuntu-ports $VERSION_CODENAME$suite main universe"
  done >"$apt/sources.list"
  options+=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=-)
fi
apt-get "${options[@]}" update
apt-get "${options[@]}" install -y --no-install-recommends --download-only "${packages[@]}"
for package in "$apt"/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -C "$root" --keep-directory-symlink --no-same-owner -x
done
# Links to files of the root itself: the linker would follow them out of it.
find "$root" -type l -lname '/*' | while IFS= read -r link; do ln -sfnr "$root$(readlink "$link")" "$link"; done
rm -r "$apt"
echo "${packages[*]}" >"$root/packages"
