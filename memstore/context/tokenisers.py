"""How many tokens a text has: by the caller's own count, by a tokeniser that is installed, or by an estimate."""

import importlib.util
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import regex

from memstore import checks
from memstore.errors import EmbedderError, InvalidInputError
from memstore.loading import Guard

# A function of a text that returns how many tokens it has, or the tokens (a list, a one-dimensional array, or a mapping
# or an encoding with its `input_ids` or `ids`); or the name of a tokeniser.
GivenTokeniser: TypeAlias = Callable[[str], Any] | str | None
NAMES = "estimate, model, tokenizers:PATH/tokenizer.json, tiktoken:NAME (such as tiktoken:cl100k_base)"
# Characters of a token at least, in the vocabularies that were measured (examples/context.py --tokens).
_LETTERS, _ACCENTED, _DIGITS = 4, 2, 2
_PIECES = regex.compile(
    r"(?P<word>[\p{Latin}\p{M}]+)|(?P<digits>[0-9]+)|(?P<gap>[ \t]+)|(?P<other>.)",
    regex.DOTALL,
)
_LOADING = Guard()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokeniser:
    """A tokeniser by its name; `counts` gives the number of tokens of a text, or the tokens."""

    name: str
    counts: Callable[[str], Any]

    def count(self, text: str) -> int:
        """Return how many tokens a text has; raise `InvalidInputError` when the tokeniser gives no such number."""
        try:
            found = _number(self.counts(text))
        except Exception as error:
            raise InvalidInputError(
                f"the tokeniser {self.name} failed ({checks.brief(error)}); give a function that counts any text."
            ) from error
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise InvalidInputError(
                f"the tokeniser {self.name} returned {checks.brief(found)}; it must return a whole number from 0 on,"
                " or the tokens of the one text, as a list or a one-dimensional array."
            )
        return found


def tokeniser(given: GivenTokeniser, model: Callable[[str], tuple[str, Callable[[str], int]] | None]) -> Tokeniser:
    """Return the tokeniser that is meant; nothing is downloaded.

    `model` gives the name and count of one of the store's own embedders by its name, or by `model`, None where there
    is none of that name. Raises `InvalidInputError` on what is no tokeniser, or one that is not here.
    """
    if given is None or given == "estimate":
        return Tokeniser(name="estimate", counts=estimate)
    if callable(given):
        return Tokeniser(name=str(getattr(given, "__name__", type(given).__name__)), counts=given)
    if not isinstance(given, str):
        raise InvalidInputError(f"tokeniser is {type(given).__name__}; give a function of a text, or one of: {NAMES}.")
    kind, _, rest = given.partition(":")
    if kind == "tokenizers" and rest:
        return Tokeniser(name=given, counts=_from_file(rest))
    if kind == "tiktoken" and rest:
        return Tokeniser(name=given, counts=_tiktoken(rest))
    try:
        own = model(given)
    except EmbedderError as error:
        raise InvalidInputError(f"the tokeniser {given} can't be had: {error}.") from error
    if own is None and given == "model":
        raise InvalidInputError(
            "the tokeniser model can't be had: the file has no embedding space yet; add a first memory with an"
            " embedder, or give another tokeniser."
        )
    if own is None:
        raise InvalidInputError(f"the tokeniser {checks.brief(given)} is unknown; give a function, or one of: {NAMES}.")
    return Tokeniser(name=own[0], counts=own[1])


def estimate(text: str) -> int:
    """Return about how many tokens a text has, more often too many than too few; needs no vocabulary.

    A word of unaccented letters counts one for each four begun, one with accents and digits one for each two. The
    first blank of a run belongs to the word behind it, four more count one. Any other character counts one, two beyond
    the basic plane, such as an emoji. Of 300 texts each in English, Portuguese, Spanish, Chinese and of code, a
    multilingual vocabulary has more tokens than this in none to 0.3%; an English one in none of the English and up to
    a third of the Portuguese and Spanish, there by up to a sixth.
    """
    total = 0
    for match in _PIECES.finditer(text):
        size, kind = match.end() - match.start(), match.lastgroup
        if kind == "word":
            total += math.ceil(size / (_LETTERS if match.group().isascii() else _ACCENTED))
        elif kind == "digits":
            total += math.ceil(size / _DIGITS)
        elif kind == "gap":
            total += math.ceil((size - 1) / 4)
        else:
            total += 2 if match.group() > "\uffff" else 1
    return total


def _number(answer: Any) -> Any:
    """Return the number of tokens in an answer that holds those of one text, and any other answer as it is."""
    found = answer["input_ids"] if isinstance(answer, Mapping) and "input_ids" in answer else answer
    found = checks.native(getattr(found, "ids", found))
    # The length of other collections is that of something else: of a batch, of its columns, of distinct tokens.
    unclear = isinstance(found, str | bytes | Mapping | Set) or getattr(found, "ndim", 1) != 1
    if unclear or not isinstance(found, Sized) or (isinstance(found, Iterable) and _nested(next(iter(found), None))):
        return found
    return len(found)


def _nested(token: Any) -> bool:
    return isinstance(token, list | tuple | Mapping) or hasattr(token, "ids") or getattr(token, "ndim", 0) > 0


def _from_file(name: str) -> Callable[[str], int]:
    if importlib.util.find_spec("tokenizers") is None:
        raise InvalidInputError("the library tokenizers is not installed; pip install tokenizers.")
    try:
        path = Path(name).expanduser()
        path = path / "tokenizer.json" if path.is_dir() else path
        there = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInputError(
            f"{checks.brief(name)} is no path ({checks.brief(str(error))}); name the tokenizer.json of a model."
        ) from error
    if not there:
        raise InvalidInputError(f"{path} does not exist; name the tokenizer.json of a model.")
    from tokenizers import Tokenizer

    try:
        loaded = Tokenizer.from_file(str(path))
    except Exception as error:
        raise InvalidInputError(f"{path} is no tokenizer.json ({checks.brief(str(error))}).") from error
    # The file may say that texts are cut or filled up to the length that its model reads.
    loaded.no_truncation()
    loaded.no_padding()
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


def _tiktoken(name: str) -> Callable[[str], int]:
    if importlib.util.find_spec("tiktoken") is None:
        raise InvalidInputError("the library tiktoken is not installed; pip install tiktoken.")
    import tiktoken
    from tiktoken import load

    if name not in tiktoken.list_encoding_names():
        known = ", ".join(tiktoken.list_encoding_names())
        raise InvalidInputError(f"tiktoken has no encoding {checks.brief(name)}; it has {known}.")

    try:
        with _offline(load):
            found = tiktoken.get_encoding(name)
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"the encoding {name} is not in tiktoken's cache (TIKTOKEN_CACHE_DIR), and memstore downloads nothing;"
            f" run tiktoken.get_encoding({name!r}) once yourself."
        ) from error
    except Exception as error:
        raise InvalidInputError(
            f"the encoding {name} can't be read from tiktoken's cache ({checks.brief(error)}); make that folder"
            f" readable, or run tiktoken.get_encoding({name!r}) once yourself."
        ) from error
    return lambda text: len(found.encode(text, disallowed_special=()))


@contextmanager
def _offline(load: Any) -> Iterator[None]:
    """Keep this thread from fetching by tiktoken, which fetches what is not in its cache and has no setting against it.

    The only place is a function of its module, which all threads call: others are let through to it meanwhile.
    """
    own = threading.get_ident()

    def read_file(blobpath: str) -> bytes:
        if "://" in blobpath and threading.get_ident() == own:
            raise FileNotFoundError(blobpath)
        found: bytes = fetch(blobpath)
        return found

    # One at a time, so that each puts back what it found.
    with _LOADING.lock:
        fetch, load.read_file = load.read_file, read_file
        try:
            yield
        finally:
            load.read_file = fetch
