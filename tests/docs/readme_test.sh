#!/usr/bin/env bash
# Runs every command of the ```sh blocks in README.md and docs/guide/*.md, in order and once each, in a scratch folder:
# drawn images, made-up names, verse and numbers stand in for the real ones, and training is cut to a few batches of
# one epoch.
#   readme_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
scratch=$root/checkout
export XDG_CACHE_HOME="$scratch/cache" XDG_DATA_HOME="$scratch/data"

mkdir -p "$scratch/build/release"
ln -s "$source/configs" "$scratch/configs"
"$build/whisker" data generate "$root/shared/data/cats_dogs" --per-class 24 --val-per-class 8 --seed 7 >/dev/null
"$build/whisker" data generate "$scratch/drawn" --per-class 24 --val-per-class 8 --seed 8 >/dev/null
mkdir "$root/shared/data/mnist"
cp -r "$scratch/drawn/train" "$root/shared/data/mnist/train"
mv "$scratch/drawn/val" "$root/shared/data/mnist/test"
mv "$scratch/drawn/train" "$scratch/my_photos"
sequences=$root/shared/data/sequences
for i in {1..20}; do
  for part in train test; do
    mkdir -p "$scratch/aclImdb/$part/pos" "$scratch/aclImdb/$part/neg"
    echo "a good film, the $i. of them" >"$scratch/aclImdb/$part/pos/${i}_9.txt"
    echo "a bad film, the $i. of them" >"$scratch/aclImdb/$part/neg/${i}_2.txt"
  done
  echo "http://example.org/$i" >>"$scratch/aclImdb/train/urls_pos.txt"
done
mkdir -p "$sequences/names"
for i in {1..40}; do
  echo "Mc$i" >>"$sequences/names/Scottish.txt"
  echo "${i}ski" >>"$sequences/names/Polish.txt"
done
for i in {1..400}; do echo "ROMEO: the $i of roses, and a word besides"; done >"$sequences/tinyshakespeare.txt"
{
  echo Month,Passengers
  for i in {1..96}; do echo "$i,$((100 + i + i % 12 * 5))"; done
} >"$sequences/airline-passengers.csv"
cat >"$scratch/build/release/whisker" <<WRAPPER
#!/usr/bin/env bash
# The program, with training made short; a resume may only have its epochs changed, and the restart with them. A run
# that was made longer cannot be repeated: another one is.
case "\$1 \$2" in
  "train --repeat") exec "$build/whisker" train --repeat runs/mnist ;;
  "train --resume") exec "$build/whisker" train --resume "\$3" train.epochs=2 schedule.restart=1 ;;
  "train "*_lstm.yaml | "train "*_gru.yaml) exec "$build/whisker" "\$@" train.epochs=1 train.batch_size=8 ;;
  "train "*) exec "$build/whisker" "\$@" train.epochs=1 train.batch_size=8 data.image_size=32 data.resize_short=36 ;;
esac
exec "$build/whisker" "\$@"
WRAPPER
chmod +x "$scratch/build/release/whisker"

# Pretrained weights are those of the shared data: fetch_weights.sh finds them there, and no test uses the network.
ln -s "$source/scripts" "$scratch/scripts"
weights=${WHISKER_DATA:-$source/../shared/data}/weights/mobilenet_v2-b0353104.pth
without_network='^$'
if [ -f "$weights" ]; then
  mkdir -p "$XDG_DATA_HOME/whisker/weights"
  cp "$weights" "$XDG_DATA_HOME/whisker/weights"
else
  echo "skipped, without $weights: commands that begin with pretrained weights"
  without_network='fetch_weights|--pretrained'
fi

cd "$scratch"
# A command may stand on several pages, with another comment behind it.
awk '/^```sh$/ {inside = 1; next} /^```$/ {inside = 0} {sub(/ +#.*/, "")} inside && NF && !seen[$0]++' \
  "$source/README.md" "$source"/docs/guide/*.md | grep -vE -e "$without_network" >commands
[ "$(wc -l <commands)" -ge 30 ] || { echo "expected at least 30 commands, found $(wc -l <commands)"; exit 1; }
count=0
while IFS= read -r command <&3; do
  echo "\$ $command"
  eval "$command" >output 2>&1 || { cat output; echo "FAILED: $command"; exit 1; }
  count=$((count + 1))
done 3<commands
echo "$count commands of README.md and docs/guide ran"

# The two commands above the blocks exist and say what they take.
"$source/quickstart" --help >/dev/null
grep -q '\./run-tests' "$source/README.md" && [ -x "$source/run-tests" ]
