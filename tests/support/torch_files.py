"""Files as torch.save writes them, made without PyTorch: genuine pickle streams over stand-ins for torch's names.

    python3 tests/support/torch_files.py FOLDER     writes the seeds of tests/fuzz/corpus/torch_file
"""

import argparse
import collections
import datetime
import enum
import io
import pathlib
import pickle
import struct
import sys
import types
import warnings
import zipfile


def _module(name):
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
    return sys.modules[name]


def _stand_in(module, name, value=None):
    value = value or type(name, (), {})
    value.__module__, value.__qualname__, value.__name__ = module, name, name
    setattr(_module(module), name, value)
    return value


_module("torch")
FLOAT, HALF, LONG, SHORT = (_stand_in("torch", f"{kind}Storage") for kind in ("Float", "Half", "Long", "Short"))
CODES = {FLOAT: "f", HALF: "e", LONG: "q", SHORT: "h"}
_rebuild_tensor_v2 = _stand_in("torch._utils", "_rebuild_tensor_v2", lambda *arguments: None)
_rebuild_parameter = _stand_in("torch._utils", "_rebuild_parameter", lambda *arguments: None)


class Storage:
    """Numbers that tensors view."""

    def __init__(self, values, kind=FLOAT):
        self.kind, self.count = kind, len(values)
        self.bytes = struct.pack(f"<{len(values)}{CODES[kind]}", *values)


class Tensor:
    def __init__(self, storage, shape, strides=None, offset=0, metadata=None):
        self.arguments = (storage, offset, tuple(shape), tuple(strides or contiguous(shape)), False,
                          collections.OrderedDict())
        if metadata is not None:
            self.arguments += (metadata,)

    def __reduce__(self):
        return _rebuild_tensor_v2, self.arguments


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return _rebuild_parameter, (self.tensor, True, collections.OrderedDict())


def contiguous(shape):
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


def tensor(values, shape=None, kind=FLOAT):
    return Tensor(Storage(values, kind), shape if shape is not None else [len(values)])


class _Pickler(pickle._Pickler):
    """Python's own in Python, with names written as they are said, whatever is imported."""

    def __init__(self, file, view):
        super().__init__(file, protocol=2)
        self.storages, self.view = [], view

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        if value not in self.storages:
            self.storages.append(value)
        identity = ("storage", value.kind, str(self.storages.index(value)), "cpu", value.count)
        return identity + self.view


def _stream(value, view=()):
    file = io.BytesIO()
    pickler = _Pickler(file, view)
    pickler.dump(value)
    return file.getvalue(), pickler.storages


def save(value, path, compression=zipfile.ZIP_STORED):
    """The zip archive of PyTorch since 1.6."""
    stream, storages = _stream(value)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", stream)
        archive.writestr("archive/byteorder", "little")
        for number, storage in enumerate(storages):
            archive.writestr(f"archive/data/{number}", storage.bytes)
        archive.writestr("archive/version", "3\n")


def save_old(value, path):
    """The streams of PyTorch before 1.6."""
    stream, storages = _stream(value, (None,))
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [_stream(part)[0] for part in (0x1950A86A20F9469CFC6C, 1001, facts)]
    parts += [stream, _stream([str(number) for number in range(len(storages))])[0]]
    for storage in storages:
        parts += [struct.pack("<q", storage.count), storage.bytes]
    pathlib.Path(path).write_bytes(b"".join(parts))


def samples():
    """A state_dict with what tensors may be, and the same in a checkpoint of DataParallel."""
    shared = Storage(range(12))
    state = collections.OrderedDict([
        ("weight", Parameter(Tensor(shared, (3, 4)))),
        ("transposed", Tensor(shared, (4, 3), (1, 4))),
        ("inner", Tensor(shared, (2, 2), (4, 1), 5)),
        ("spread", Tensor(Storage([7]), (3, 2), (0, 0))),
        ("half", tensor([0.5, -2], kind=HALF)),
        ("empty", tensor([], (0, 4))),
        ("num_batches_tracked", tensor([3], (), LONG)),
    ])
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    wrapped = {"epoch": 3, "best": 71.5, "notes": [None, True, ("a", 1 << 40)],
               "state_dict": {"module." + name: value for name, value in state.items()}}
    return state, wrapped


def trainer():
    """A checkpoint as trainers write it: two sets of weights among objects of their own."""
    kind = _stand_in("trainers", "Kind", enum.Enum("Kind", {"BEST": 1}, module="trainers"))
    state = {"conv.weight": tensor(range(8), (2, 4)), "conv.bias": tensor([1, 2])}
    average = {"module." + name: value for name, value in state.items()}
    average["n_averaged"] = tensor([3], (), LONG)
    return {"epoch": 3, "model": state, "model_ema": average, "best": tensor([0.5], ()), "kind": kind.BEST,
            "optimizer": {"state": {0: {"momentum_buffer": tensor(range(8), (2, 4))}}, "param_groups": [{"lr": 0.1}]},
            "args": argparse.Namespace(lr=0.1, when=datetime.datetime(2024, 1, 1), out=pathlib.PurePosixPath("/x")),
            "history": collections.defaultdict(list, {"loss": [1.5, 2.5]}), "labels": {"a", "b"}}


def whole_module():
    """A module as torch.save(model) writes it, with a buffer that its state_dict leaves out."""
    kind = _stand_in("torch.nn.modules.module", "Module")

    def module(parameters, buffers=(), modules=(), unsaved=()):
        made = kind()
        made.__dict__.update(training=False, _parameters=dict(parameters), _buffers=dict(buffers),
                             _non_persistent_buffers_set=set(unsaved), _modules=dict(modules))
        return made

    conv = module({"weight": Parameter(tensor(range(8), (2, 4))), "bias": None})
    return module({}, {"seen": tensor([3], (), LONG), "scratch": tensor([1])}, {"conv": conv, "none": None}, ["scratch"])


def _save_entries(path, entries):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # of two entries of one name
        for name, content in entries:
            archive.writestr(name, content)


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state, wrapped = samples()
    save(trainer(), folder / "trainer.pth")
    save_old(trainer(), folder / "trainer_old.pth")
    save(whole_module(), folder / "whole.pth")
    save_old(whole_module(), folder / "whole_old.pth")
    save({"w": Tensor(Storage([1, -2]), (2,), metadata={"neg": True}), "h": tensor([1], kind=HALF)},
         folder / "negative.pth")
    save({"encoder": {"w": tensor([1])}, "decoder": {"w": tensor([2])}}, folder / "parts.pth")
    stream = _stream({})[0]
    _save_entries(folder / "script.pt", [("m/data.pkl", stream), ("m/code/m.py", "x"), ("m/constants.pkl", stream)])
    _save_entries(folder / "network.keras", [(name, "{}") for name in
                                             ("metadata.json", "config.json", "model.weights.h5")])
    _save_entries(folder / "twice.pth", [("a/data.pkl", stream), ("a/data.pkl", stream)])
    _save_entries(folder / "two.pth", [("a/data.pkl", stream), ("b/data.pkl", stream)])
    for name, value in (("state", state), ("wrapped", wrapped)):
        save(value, folder / f"{name}.pth")
        save_old(value, folder / f"{name}_old.pth")
    save({"a": print}, folder / "names.pth")
    save(state, folder / "compressed.pth", zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(sys.argv[1])
