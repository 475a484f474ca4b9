#!/usr/bin/env python3
"""Every case of tests/layers/layer_cases.h, exported and run in ONNX Runtime, gives what Whisker computes.

    onnx_layers_test.py WRITER      whisker_onnx_layer_cases, which writes the files and what Whisker computes
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing} (./run-tests installs it into build/python)")
    sys.exit(77)

TYPES = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64}


def array(stored):
    return numpy.array(stored["values"]).reshape(stored["shape"])


def difference(model, case):
    """The largest, of steps within the sequences' lengths."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    inputs = {}
    for one in session.get_inputs():
        values = array(case[one.name])
        inputs[one.name] = (values.transpose(0, 3, 1, 2) if values.ndim == 4 else values).astype(TYPES[one.type])
    result, expected = session.run(None, inputs)[0], array(case["y"])
    if result.shape != expected.shape:
        return f"shape {result.shape} instead of {expected.shape}"
    valid = numpy.ones(expected.shape, bool)
    if expected.ndim == 3:  # (steps, rows, features)
        steps = numpy.arange(expected.shape[0])[:, None]
        valid &= (steps < array(case["lengths"])[None, :])[:, :, None]
    return float(numpy.abs(result - expected)[valid].max())


def main(writer):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([writer, folder], check=True)
        cases = sorted(pathlib.Path(folder).glob("*.json"), key=lambda path: int(path.stem))
        for path in cases:
            case = json.loads(path.read_text())
            found = difference(path.with_suffix(".onnx"), case)
            if not (isinstance(found, float) and found <= 1e-4):
                wrong += 1
                print(f"{case['layer']}: difference {found}")
            if float(numpy.abs(array(case["y"])).max()) < 1e-3:
                wrong += 1
                print(f"{case['layer']}: control: its outputs are all near 0")
    print(f"{len(cases)} layers, {wrong} wrong")
    return 0 if cases and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
