"""A model's files on this machine: where fastembed keeps them, whether they are whole, what they say of themselves.

Nothing is imported, made, opened as a model or downloaded here.
"""

import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

# The outputs of an ONNX model by name, in their order: their shapes, None where a side has no fixed length.
Outputs: TypeAlias = Mapping[str, tuple[int | None, ...]]
Kind = TypeVar("Kind", dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A model in fastembed's cache: its folder, and what is wrong with the files there (nothing when it is empty).

    `spoilt` is a file that is there and not as it should be, which a download would take for done.
    """

    folder: Path
    fault: str = ""
    spoilt: bool = False


def cache() -> Path:
    """Return the folder where fastembed keeps its models, which need not exist."""
    return Path(os.environ.get("FASTEMBED_CACHE_PATH", _temporary())).expanduser().absolute()


def cache_is_temporary() -> bool:
    """Say whether that folder is fastembed's default, which the system may empty."""
    return cache() == _temporary().absolute()


def _temporary() -> Path:
    return Path(tempfile.gettempdir(), "fastembed_cache")


def snapshot(repository: str, files: Sequence[str]) -> Snapshot | None:
    """Return a model of the cache: the whole snapshot that its `main` names, else the newest that is whole.

    When none is whole the first of them comes with its fault; None is a model that is not there at all.
    """
    faulty = None
    for kept in _kept(repository):
        for folder in _snapshots(kept):
            found = looked_at(folder, files, _sizes(kept, folder.name))
            if not found.fault:
                return found
            faulty = faulty or found
        faulty = faulty or Snapshot(folder=kept, fault="its download did not end")
    return faulty


def kept_in(repository: str) -> Path:
    """Return the folder of the cache in which a repository of the hub is kept."""
    return cache() / f"models--{repository.replace('/', '--')}"


def _kept(repository: str) -> list[Path]:
    usual = kept_in(repository)
    try:
        found = [one for one in cache().iterdir() if one.name.lower() == usual.name.lower() and one.is_dir()]
    except OSError:
        return []
    # Earlier versions of fastembed spelled some of them otherwise.
    return sorted(found, key=lambda one: one.name != usual.name)


def _snapshots(kept: Path) -> list[Path]:
    try:
        found = [one for one in (kept / "snapshots").iterdir() if one.is_dir()]
    except OSError:
        return []
    main = _text(kept / "refs" / "main").strip()
    return sorted(found, key=lambda one: (one.name == main, one.stat().st_mtime), reverse=True)


def _sizes(kept: Path, revision: str) -> dict[str, int]:
    """Return the sizes of a snapshot's files as fastembed and the hub noted them at the download, by path."""
    start = f"snapshots/{revision}/"
    noted = read_json(kept / "files_metadata.json", dict)
    sizes = {
        path.replace("\\", "/").removeprefix(start): one
        for path, one in noted.items()
        if path.replace("\\", "/").startswith(start)
    }
    tree = read_json(kept / "trees" / f"{revision}.json", dict).get("files")
    sizes |= tree if isinstance(tree, dict) else {}
    return {
        path: one["size"] for path, one in sizes.items() if isinstance(one, dict) and isinstance(one.get("size"), int)
    }


def looked_at(folder: Path, files: Sequence[str], sizes: Mapping[str, int]) -> Snapshot:
    """Return a folder with what is wrong with these files there, whose sizes should be as given where they are."""
    for name in files:
        try:
            size = (folder / name).stat().st_size
        except OSError:
            return Snapshot(folder=folder, fault=f"{name} is missing")
        if not size or size != sizes.get(name, size):
            expected = f" of {sizes[name]:,}" if name in sizes else ""
            return Snapshot(folder=folder, fault=f"{name} has {size:,}{expected} bytes", spoilt=True)
        if name.endswith(".onnx"):
            try:
                onnx_outputs(folder / name)
            except (OSError, ValueError) as error:
                return Snapshot(folder=folder, fault=f"{name} {error}", spoilt=True)
    return Snapshot(folder=folder)


def read_json(file: Path, kind: type[Kind]) -> Kind:
    """Return what a JSON file holds, an empty one of its kind for a file that is not there or holds another."""
    try:
        found = json.loads(_text(file))
    except (ValueError, RecursionError):
        return kind()
    return found if isinstance(found, kind) else kind()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def static_tensors(file: Path) -> dict[str, Any]:
    """Return the header of a safetensors file, an empty one for what is none."""
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
        try:
            header = json.loads(data.read(length)) if length < file.stat().st_size else {}
        except ValueError:
            return {}
    return header if isinstance(header, dict) else {}


def onnx_outputs(file: Path) -> Outputs:
    """Return the outputs of an ONNX file without loading it; raise `ValueError` on one that is cut short or empty.

    A session would read all of the weights for the same. The file is a protocol buffer
    (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto): the model's field 7 is the graph, whose field 12 is an
    output: its name (1) and its type (2), in which the shape (1, then 2) has a field 1 for each side.
    """
    if not file.stat().st_size:
        raise ValueError("is empty")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        graphs = list(_fields(data, 7, (0, len(data))))
        if len(graphs) != 1:
            raise ValueError("is no ONNX file")
        return dict(_output(data, span) for span in _fields(data, 12, graphs[0]))


_Span: TypeAlias = tuple[int, int]


def _output(data: mmap.mmap, span: _Span) -> tuple[str, tuple[int | None, ...]]:
    name = b"".join(data[start:stop] for start, stop in _fields(data, 1, span))
    sides: list[_Span] = [span]
    for number in (2, 1, 2, 1):
        sides = [one for outer in sides for one in _fields(data, number, outer)]
    # A side's field 1 is its length; one with a name in its place has none.
    return name.decode(), tuple(
        next((_varint(data, at)[0] for at, _ in _fields(data, 1, side)), None) for side in sides
    )


def _fields(data: mmap.mmap, number: int, span: _Span) -> Iterator[_Span]:
    """Yield where the values of a message's field of that number are."""
    at, end = span
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 2:
            length, at = _varint(data, at)
            stop = at + length
        elif kind == 0:
            stop = _varint(data, at)[1]
        elif kind in (1, 5):
            stop = at + (8 if kind == 1 else 4)
        else:
            raise ValueError("is no ONNX file")
        if stop > end:
            raise ValueError("is cut short")
        if key >> 3 == number:
            yield at, stop
        at = stop


def _varint(data: mmap.mmap, at: int) -> _Span:
    """Return a number of variable length and where it ends."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError("is cut short")
