#!/usr/bin/env python3
"""Compares Whisker's verdict on damaged safetensors files with that of Python's package.

usage: compare_safetensors.py PROGRAM [COUNT] [SEED]

PROGRAM is build/<preset>/tests/core/whisker_safetensors_verdict. COUNT mutants (default 10,000) are
made from valid files by edits of bytes, of JSON text and of JSON values. It is an error when Whisker
accepts what Python refuses, or refuses what Python accepts for a reason that is not on the list of
Note [Safetensors verdict] in core/io/safetensors.h. Needs `pip install safetensors==0.8.0`.
"""
import collections
import json
import random
import struct
import subprocess
import sys

import safetensors

DTYPES = ["F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL"]
SIZES = dict(zip(DTYPES, [8, 4, 2, 2, 8, 4, 1, 1]))
# What Whisker may refuse although Python accepts it; each is a fragment of our message.
STRICTER = {
    "expected every tensor once": "duplicate tensor",
    "expected every key once": "duplicate metadata key",
    "expected a dtype of": "dtype that Whisker lacks",
    "expected '{' first": "white space before the header",
    "data_offsets, got an array": "tensor as an array",
    "dtype as text, got an object": "dtype as an object",
}
ODD_VALUES = ["0", "1", "-1", "-0", "1.0", "1e0", "1e999", "1e-999", "null", "true", '""', '"x"', "[]",
              "{}", "[0]", "[[0]]", '{"a":1}', "18446744073709551615", "18446744073709551616",
              "4294967296", "9223372036854775808", '"F32"', '"I8"', '"U32"', '"f32"', '{"F32":null}',
              "[0,4]", "[4,0]", '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', "NaN", "01", "0.", "+1"]


def valid_header(rng):
    """A header as a list of (key, value) pairs, values as JSON text, and the bytes of its tensors."""
    entries, position = [], 0
    for i in range(rng.randrange(5)):
        dtype = rng.choice(DTYPES)
        shape = [rng.randrange(4) for _ in range(rng.randrange(4))]
        count = SIZES[dtype]
        for extent in shape:
            count *= extent
        fields = [("dtype", json.dumps(dtype)), ("shape", json.dumps(shape)),
                  ("data_offsets", json.dumps([position, position + count]))]
        rng.shuffle(fields)
        entries.append([f"t{i}", fields])
        position += count
    rng.shuffle(entries)
    if rng.random() < 0.5:
        pairs = [(f"k{i}", json.dumps("v" * i)) for i in range(rng.randrange(3))]
        entries.insert(rng.randrange(len(entries) + 1), ["__metadata__", pairs])
    return entries, bytes(rng.randrange(256) for _ in range(position))


def mutate_values(rng, entries):
    """Edits names, fields and values of the header in place."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        if not entries:
            entries.append(["t0", [("dtype", '"U8"')]])
        entry = rng.choice(entries)
        kind = rng.randrange(9)
        if kind == 0:
            entry[0] = rng.choice(["t0", "t1", "__metadata__", "", "\u00e9", "a.b"])
        elif kind == 1:
            entries.append([entry[0], list(entry[1])] if isinstance(entry[1], list) else list(entry))
        elif kind == 2:
            entry[1] = rng.choice(ODD_VALUES)
        elif isinstance(entry[1], list) and entry[1]:
            fields, i = entry[1], rng.randrange(len(entry[1]))
            if kind == 3:
                del fields[i]
            elif kind == 4:
                fields.insert(rng.randrange(len(fields) + 1), fields[i])
            elif kind == 5:
                fields.insert(i, (rng.choice(["extra", "dtypes", "shape"]), rng.choice(ODD_VALUES)))
            elif kind == 6 and fields[i][0] != "dtype" and fields[i][1].startswith("["):
                numbers = json.loads(fields[i][1])
                texts = [str(n) for n in numbers]
                texts.insert(rng.randrange(len(texts) + 1), rng.choice(ODD_VALUES))
                if rng.random() < 0.7:
                    texts.pop(rng.randrange(len(texts)))
                fields[i] = (fields[i][0], "[" + ",".join(texts) + "]")
            elif kind == 7 and fields[i][0] == "data_offsets" and fields[i][1].startswith("["):
                fields[i] = (fields[i][0], json.dumps(
                    [max(0, n + rng.randrange(-2, 3)) if isinstance(n, int) else 0
                     for n in json.loads(fields[i][1])]))
            else:
                fields[i] = (fields[i][0], rng.choice(ODD_VALUES))


def header_text(entries):
    def value(v):
        if isinstance(v, str):
            return v
        return "{" + ",".join(f"{json.dumps(k)}:{t}" for k, t in v) + "}"
    return ("{" + ",".join(f"{json.dumps(k)}:{value(v)}" for k, v in entries) + "}").encode()


def mutant(rng):
    entries, data = valid_header(rng)
    mode = rng.randrange(10)
    if mode >= 3:
        try:
            mutate_values(rng, entries)
        except json.JSONDecodeError:
            pass
    header = header_text(entries)
    if mode in (1, 2, 3):  # bytes of the header
        edited = bytearray(header)
        for _ in range(rng.choice([1, 1, 2])):
            i = rng.randrange(len(edited))
            kind = rng.randrange(4)
            if kind == 0:
                edited[i] = rng.randrange(256)
            elif kind == 1:
                del edited[i]
            elif kind == 2:
                edited.insert(i, rng.choice(b' \t\n\0{}[]",:\\0123456789eE.-/\xc3\xff'))
            else:
                edited[i] = rng.choice(b' {}[]",:0123456789')
            if not edited:
                edited = bytearray(b"{")
        header = bytes(edited)
    if rng.random() < 0.2:
        header = header + b" " * rng.randrange(9)
    if rng.random() < 0.03:
        header = rng.choice([b" ", b"\n", b"\xef\xbb\xbf"]) + header
    length = len(header)
    if rng.random() < 0.05:
        length = max(0, length + rng.choice([-8, -1, 1, 8, 1 << 20, 100_000_000, 1 << 40, (1 << 63)]))
    if rng.random() < 0.08:
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data + b"\0"
    file = struct.pack("<Q", length) + header + data
    if rng.random() < 0.02:
        file = file[: rng.randrange(len(file) + 1)]
    return file


def python_verdict(file):
    try:
        return True, str(len(safetensors.deserialize(file)))
    except Exception as error:  # the package raises its own type; a crash would end this script
        return False, str(error)


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    files = [mutant(rng) for _ in range(count)]
    stream = b"".join(struct.pack("<Q", len(file)) + file for file in files)
    answer = subprocess.run([program], input=stream, capture_output=True, check=True)
    ours = answer.stdout.decode(errors="replace").splitlines()
    assert len(ours) == count, f"expected {count} verdicts, got {len(ours)}"
    tally, wrong = collections.Counter(), 0
    for file, line in zip(files, ours):
        accepted, detail = python_verdict(file)
        we_accept = line.startswith("accepted ")
        if accepted and we_accept:
            tally["both accept"] += 1
            problem = line != f"accepted {detail}"
        elif not accepted and not we_accept:
            tally["both refuse"] += 1
            problem = False
        elif accepted:
            reason = next((name for text, name in STRICTER.items() if text in line), None)
            tally[f"only we refuse: {reason}"] += 1
            problem = reason is None
        else:
            tally["only Python refuses"] += 1
            problem = True
        if problem:
            wrong += 1
            print(f"whisker: {line}\npython:  {detail}\nfile:    {file!r}\n")
    print(f"n = {count} mutants, safetensors {safetensors.__version__}: {wrong} wrong verdicts")
    for name, times in tally.most_common():
        print(f"  {times:6d} {name}")
    return 1 if wrong or not tally["both accept"] or not tally["both refuse"] else 0


if __name__ == "__main__":
    sys.exit(main())
