#!/usr/bin/env bash
# Downloads Microsoft's public cats-and-dogs photographs (25,000 images, about 790 MB), resuming
# what was begun, checks them and puts them into FOLDER/{train,val}/{cat,dog}.
#   scripts/fetch_cats_dogs.sh [FOLDER]      default $WHISKER_DATA/cats_dogs, else ../shared/data/cats_dogs
#                                            beside the checkout, where configurations and tests look; an
#                                            installation has no default
# CATS_DOGS_URL and CATS_DOGS_SHA256 name another archive of the same layout (class folders of
# images); an empty CATS_DOGS_SHA256 prints the sum instead of checking it.
set -euo pipefail

url=${CATS_DOGS_URL-https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip}
sum=${CATS_DOGS_SHA256-b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9}
checkout=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -eq 0 ] && [ -z "${WHISKER_DATA:-}" ] && [ ! -f "$checkout/CMakeLists.txt" ]; then
  echo "fetch_cats_dogs.sh: expected FOLDER, where the photographs go: $checkout is no checkout, which has a default." >&2
  exit 2
fi
folder=${1:-${WHISKER_DATA:-$checkout/../shared/data}/cats_dogs}

command -v unzip >/dev/null || { echo "unzip is missing: apt-get install unzip" >&2; exit 1; }
if [ -d "$folder/train" ]; then
  echo "$folder/train is there already." >&2
  exit 0
fi
mkdir -p "$folder"
archive=$folder/cats_dogs.zip
curl --fail --location --retry 3 --continue-at - --output "$archive.part" "$url" ||
  { [ $? -eq 33 ] && rm -f "$archive.part" && curl --fail --location --retry 3 --output "$archive.part" "$url"; }

actual=$(sha256sum "$archive.part" | cut -d' ' -f1)
if [ -z "$sum" ]; then
  echo "sha256 $actual (not checked: CATS_DOGS_SHA256 is empty)" >&2
elif [ "$actual" != "$sum" ]; then
  echo "$archive.part: sha256 is $actual, expected $sum. The download is damaged or another file;" >&2
  echo "remove it and start again." >&2
  exit 3
fi
mv "$archive.part" "$archive"

# Folder names PetImages/Cat and PetImages/Dog become cat and dog; one in ten goes to val. unzip takes ../ and a leading
# slash off names, so nothing is written outside of unpacked/.
rm -rf "$folder/unpacked" "$folder/sorting"
unzip -q -o "$archive" -d "$folder/unpacked"
position=0
find "$folder/unpacked" -mindepth 2 -type f \( -iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.png' \) -print0 | sort -z |
  while IFS= read -r -d '' file; do
    label=$(basename "$(dirname "$file")" | tr '[:upper:]' '[:lower:]')
    split=train
    [ $((position % 10)) -eq 9 ] && split=val
    position=$((position + 1))
    mkdir -p "$folder/sorting/$split/$label"
    mv "$file" "$folder/sorting/$split/$label/"
  done
# train/ comes last: once it is there, everything is.
rm -rf "$folder/val"
mv "$folder/sorting/val" "$folder/val"
mv "$folder/sorting/train" "$folder/train"
rm -rf "$folder/unpacked" "$folder/sorting" "$archive"
echo "$folder/train and $folder/val are ready." >&2
