"""What a model makes of passages: of each its vector, or those of its pieces where it can't read it whole."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from memstore import passages
from memstore.checks import digest
from memstore.embedding import BATCH_TEXTS, Embedded, Model, Vector
from memstore.errors import EmbedderError
from memstore.memories import Row
from memstore.semantic import Made, Piece

# How long a write waits for a loaded model, beside the wait of the store, for each text of a batch.
_SECONDS_A_TEXT = 2.0
# Cutting for a model with a small window aims below it: tokens are not spread evenly over a text.
_SPARE = 0.85
_FEWEST_UNITS = 16

# What a model made of texts, by the hash of each.
MadeOf: TypeAlias = Mapping[bytes, Made]
# The vectors that are there already, of texts by their hashes.
Known: TypeAlias = Callable[[Iterable[bytes]], Mapping[bytes, Vector]]


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a memory, as a model reads it: between its author and its date."""

    row: Row
    start: int
    stop: int

    @property
    def text(self) -> str:
        return self.row.embedded_text(self.start, self.stop)

    @property
    def hash(self) -> bytes:
        return digest(self.text.encode())


def knows_nothing(_: Iterable[bytes]) -> Mapping[bytes, Vector]:
    """Return no vector: what is known where there is no space yet."""
    return {}


def made_by(
    model: Model,
    spans: Sequence[Span],
    known: Known,
    answered: Callable[[], None] | None = None,
) -> tuple[dict[bytes, Made], set[bytes], Embedded]:
    """Return what is known of passages and what a model makes of the others, by hash; those known; what failed."""
    wanted = {span.hash: span for span in spans}
    whole = known(wanted)
    hashes = [one for one in wanted if one not in whole]
    long = {hashes[number] for number in model.too_long([wanted[one].text for one in hashes])}
    pieces = {one: {piece.hash: piece for piece in _pieces(model, wanted[one])} for one in long}
    parts = {text_hash: piece for cut in pieces.values() for text_hash, piece in cut.items()}
    there = {**whole, **(known(parts) if parts else {})}
    asked = {one: span for one, span in {**parts, **wanted}.items() if one not in there and one not in long}
    answer = model.passages([span.text for span in asked.values()], answered)
    vectors = {
        **there,
        **{one: answer.vectors[number] for number, one in enumerate(asked) if number in answer.vectors},
    }
    made: dict[bytes, Made] = {one: vectors[one] for one in wanted if one in vectors and one not in long}
    for one, cut in pieces.items():
        if all(text_hash in vectors for text_hash in cut):
            start = wanted[one].start
            parts_of = tuple(
                Piece(
                    start=piece.start - start, stop=piece.stop - start, text_hash=text_hash, vector=vectors[text_hash]
                )
                for text_hash, piece in cut.items()
            )
            # Where none of them has a usable vector the passage has none.
            made[one] = parts_of if any(part.vector is not None for part in parts_of) else None
    return made, set(whole), answer


def _pieces(model: Model, span: Span) -> list[Span]:
    """Cut a passage that a model can't read whole into pieces that it can; none where not even a few words fit."""
    units = float(passages.PASSAGE_UNITS)
    while units >= _FEWEST_UNITS:
        units *= _SPARE
        pieces = [
            Span(span.row, span.start + start, span.start + stop)
            for start, stop in passages.cut(span.row.text[span.start : span.stop], int(units))
        ]
        if len(pieces) > 1 and not model.too_long([piece.text for piece in pieces]):
            return pieces
    return []


class Making:
    """Vectors being made in a thread of their own, so that a model that hangs does not hold up a write for ever."""

    def __init__(self, make: "Callable[[Making], tuple[MadeOf, str]]") -> None:
        self._result: tuple[MadeOf, str] | Exception = EmbedderError("the embedder ended without an answer")
        self._answered_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(make,), daemon=True)
        self._thread.start()

    def _run(self, make: "Callable[[Making], tuple[MadeOf, str]]") -> None:
        try:
            self._result = make(self)
        except Exception as error:
            self._result = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def answered(self) -> None:
        """Note that the model is alive."""
        self._answered_at = time.monotonic()

    def done_within(self, wait: float, texts: int) -> bool:
        """Wait while the model answers; return false when it has not for `wait` seconds and some for each text."""
        limit = wait + _SECONDS_A_TEXT * min(texts, BATCH_TEXTS)
        while self.running:
            left = self._answered_at + limit - time.monotonic()
            if left <= 0:
                return False
            self._thread.join(left)
        return True

    def result(self) -> tuple[MadeOf, str]:
        """Return what was made and what failed; raise what the making raised."""
        if isinstance(self._result, Exception):
            raise self._result
        return self._result
