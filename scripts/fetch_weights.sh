#!/usr/bin/env bash
# Downloads pretrained weights of presets: torchvision's or timm's own files, as configs/presets/pretrained.yaml lists
# them (`whisker models`), into $XDG_DATA_HOME/whisker/weights (~/.local/share/whisker/weights), where
# `whisker train --pretrained` looks.
#   scripts/fetch_weights.sh NAME...
# A download that was cut goes on where it stopped. A file gets its name once its SHA-256 is right: all of it, or the
# 8 digits in its name at torchvision or timm, or the one that the server states; the table says which.
# Exit code 1: a program is missing; 2: wrong call; 3: the download failed or is another file.
set -euo pipefail

table=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)/configs/presets/pretrained.yaml

fail() {
  echo "fetch_weights.sh: $2" >&2
  exit "$1"
}

# The value of key $2 in the table's entry $1; empty where it is not known.
fact() {
  awk -v entry="$1:" -v key="  $2: " '
    /^[^ ]/ { inside = $0 == entry }
    inside && index($0, key) == 1 { print substr($0, length(key) + 1) }' "$table"
}

# The SHA-256 that the server states of $1, as Hugging Face does in the answer that redirects to the file; empty where it
# states none.
stated_sum() {
  curl --silent --head --location --max-time 60 "$1" | tr -d '\r"' |
    awk 'tolower($1) == "x-linked-etag:" && $2 ~ /^[0-9a-f]+$/ && length($2) == 64 { print $2; exit }' || true
}

# Removes the file $1.
restart() {
  echo "$1 is no part of the server's file: the download starts again." >&2
  rm -f "$1"
}

# Appends to the file $2 until the whole of $1 is there, or no byte comes any more.
download() {
  local url=$1 part=$2 before result status later meter=--no-progress-meter
  [ -t 2 ] && meter=--progress-bar
  while :; do
    before=$(stat -c %s "$part" 2>/dev/null || echo 0)
    result=0
    status=$(curl --fail --location --retry 3 --connect-timeout 30 --speed-time 60 --speed-limit 1 --continue-at - \
      "$meter" --write-out '%{http_code}' --output "$part" "$url") || result=$?
    [ "$result" -eq 0 ] && return
    if [ "$result" -eq 33 ] || [ "$status" = 416 ]; then  # no part of it can be had, or there is more than all of it
      [ "$before" -gt 0 ] || fail 3 "$url cannot be downloaded (curl ended with $result)."
      restart "$part"
    elif [ "$(stat -c %s "$part" 2>/dev/null || echo 0)" -le "$before" ]; then
      later="The same command goes on behind the $before bytes that are here."
      [ "$before" -gt 0 ] || later="A copy of it from elsewhere belongs at ${part%.part}."
      fail 3 "$url cannot be downloaded (curl ended with $result, HTTP status $status). $later"
    fi
  done
}

# Whether the SHA-256 of file $1 is $2, or begins with it.
is_right() { [[ -n $2 && $(sha256sum "$1") == "$2"* ]]; }

fetch() {
  local name=$1 url file sum how part actual
  url=$(fact "$name" url)
  [ -n "$url" ] || fail 2 "no weights file of '$name' is known. 'whisker models' lists the names."
  file=$folder/$(fact "$name" file)
  sum=$(fact "$name" sha256)
  part=$file.part
  how="SHA-256 is right"
  [ ${#sum} -eq 8 ] && how="SHA-256 begins with $sum, as the name of the file at $url says"
  if [ -z "$sum" ]; then
    sum=$(stated_sum "$url")
    how="SHA-256 is the one that its server states"
  fi
  if [ -e "$file" ]; then
    if is_right "$file" "$sum"; then
      echo "$file is there already: kept. Its $how." >&2
    elif [ -z "$sum" ]; then
      echo "$file is there already: kept, but not checked, as no server stated its SHA-256." >&2
    else
      fail 3 "$file is there, but it is not the file at $url: its SHA-256 is $(sha256sum "$file" | cut -d' ' -f1), expected $sum. Move it away and run the same command again."
    fi
    return
  fi
  [ -n "$sum" ] || fail 3 "$url: its server states no SHA-256 (or cannot be reached), so that the download could not be checked. Nothing was downloaded."
  mkdir -p "$folder"
  if [ -e "$part" ] && ! is_right "$part" "$sum"; then
    download "$url" "$part"
    is_right "$part" "$sum" || restart "$part"
  fi
  [ -e "$part" ] || download "$url" "$part"
  if ! is_right "$part" "$sum"; then
    actual=$(sha256sum "$part" | cut -d' ' -f1)
    rm -f "$part"
    fail 3 "$url: the SHA-256 of the download is $actual, expected $sum. It is damaged or another file, and was removed. Run the same command again."
  fi
  mv "$part" "$file"
  echo "$file: its $how. Licence: $(fact "$name" licence | grep . || echo 'not stated')." >&2
}

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
case ${1-} in
  "") usage >&2 && exit 2 ;;
  -h | --help) usage && exit ;;
  -*) fail 2 "unknown option $1. See --help." ;;
esac
for tool in curl sha256sum awk; do
  package=${tool/sha256sum/coreutils}
  command -v "$tool" >/dev/null || fail 1 "$tool is missing: apt-get install ${package/awk/mawk}"
done
[ -r "$table" ] || fail 1 "$table is missing: this script lies beside it in the sources and in an installation."
data=${XDG_DATA_HOME:-}
[[ $data == /* ]] || data=${HOME:+$HOME/.local/share}
[[ $data == /* ]] || fail 2 "neither XDG_DATA_HOME nor HOME is an absolute path: set XDG_DATA_HOME to the folder for the weights."
folder=$data/whisker/weights
for name in "$@"; do fetch "$name"; done
