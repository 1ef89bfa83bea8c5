"""What nobody should give a store, and somebody will: texts, values and filters from a seeded generator."""

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

_SYNTAX = (
    '"', "'", "''", '""', "OR b", "NEAR(a b)", "a*", "^a", "-a", "terms:", "neighbours : a", "{a b} : c", "(((", ")))",
    "a AND", "NOT", "NULL", "; DROP TABLE memories; --", "' OR 1=1 --", "?1", ":name", "@x", "$.a", "$[0]", "%s", "{}",
    "\\", "/*", "*/", "--", "x'00'", "json('{')", "\x1a", "\x1b[31m", "<script>", "&amp;", "```", "# heading", "---",
    "../../etc/passwd", "C:\\nul", "file:///", "http://a/?b=c#d", "a@b.c", "sk-" + "a" * 30, "AKIA" + "A" * 16,
)  # fmt: skip
_WORDS = (
    "payment", "Maria", "da", "Silva", "ERR-4018", "reunião", "informação", "C++", ".NET", "18,90", "R$", "src/db.py",
    "银行卡", "مرحبا", "می‌خواهم", "हिन्दी", "ไทย", "한국어", "👨‍👩‍👧", "🇧🇷", "e\u0301", "İ", "ß", "ﬁ", "Ǆ", "K", "30",
    "2024-02-30", "8 May 2023", "31 de fevereiro", "a" * 300, "São", "Łódź",
)  # fmt: skip
_RANGES = (
    (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F),
    (0xE00, 0xEFF), (0x1100, 0x11FF), (0x2000, 0x206F), (0x2E80, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF),
    (0xFE00, 0xFEFF), (0xFFF0, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF), (0xE0000, 0xE01EF),
    (0x10FFF0, 0x10FFFF),
)  # fmt: skip
_BREAKS = (" ", " ", "\n", "\t", "\r\n", "\u00a0", "\u2028", "\u3000", "\u200d", "\u202e", ",", ". ", "/", "-", "")
_OPERATORS = ("$eq", "$ne", "$in", "$gt", "$gte", "$lt", "$lte", "$exists", "$or", "$where", "eq", "")


_NUMBERS = (
    0, -1, -0.0, 1e308, 5e-324, 2**31, 2**31 + 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400, math.nan, math.inf,
    -math.inf, True, False, np.float32(0.25), np.float64("nan"), np.bool_(True), Decimal("1.5"), Fraction(1, 3), 1j,
    "3",
)  # fmt: skip


class Nasty:
    """Draws arguments: mostly such as can be stored, the others such as can not."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def one_of(self, *draws: Callable[[], Any]) -> Any:
        return self.rng.choice(draws)()

    def character(self) -> str:
        return chr(self.rng.randint(*self.rng.choice(_RANGES)))

    def text(self, longest: int = 40) -> str:
        """Return a text of words, marks, syntax and characters of all planes."""
        rng = self.rng
        parts = [
            rng.choice(_WORDS)
            if (kind := rng.random()) < 0.5
            else rng.choice(_SYNTAX)
            if kind < 0.65
            else "".join(self.character() for _ in range(rng.randint(1, 12)))
            for _ in range(rng.randint(1, longest))
        ]
        found = "".join(part + rng.choice(_BREAKS) for part in parts)
        what = rng.random()
        if what < 0.02:
            found = rng.choice([self.character(), rng.choice(_WORDS), rng.choice(_SYNTAX)]) * rng.randint(500, 5_000)
        elif what < 0.05:
            found = found[:3] + chr(rng.randint(0xD800, 0xDFFF)) + found[3:]
        elif what < 0.07:
            found += "\x00tail"
        elif what < 0.10:
            found = rng.choice(["", " ", "\n\t", "\u200b", "\u3000", "\ufeff", "\u0301", "."])
        return found

    def name(self) -> str:
        rng = self.rng
        if rng.random() < 0.8:
            return rng.choice(
                ["a", "b", "Ana", "Beto Souza", "ção", "e\u0301", "talk", "default", "other", "key-1", "7"]
            )
        return self.text(3)[: rng.choice([5, 50, 5_000])]

    def number(self) -> Any:
        if self.rng.random() < 0.7:
            return self.rng.choice([1, 2, 3, 10, 50, 0.5, 0.25, np.int64(3)])
        return self.rng.choice(_NUMBERS)

    def moment(self) -> Any:
        rng = self.rng
        if rng.random() < 0.7:
            return rng.choice(
                [datetime(2024, rng.randint(1, 12), 3, tzinfo=UTC), "2024-05-08", "2031-05-08T10:00-03:00"]
            )
        zone = timezone(timedelta(minutes=rng.choice([0, -180, 330, 845, -1439, 1439])))
        return rng.choice(
            [
                datetime(
                    rng.choice([1, 2, 1970, 2024, 9998, 9999]), rng.randint(1, 12), rng.randint(1, 28), tzinfo=zone
                ),
                datetime(2024, 2, 29, 23, 59, 59, 999999),
                datetime.max,
                datetime.min,
                datetime.max.replace(tzinfo=UTC),
                date(1, 1, 1),
                date(9999, 12, 31),
                "2024-02-30",
                "2024-05-08",
                "2024-05-08T10:00-03:00",
                "0001-01-01T00:00+23:59",
                "9999-12-31T23:59:59-23:59",
                "20240508T100000Z",
                "yesterday",
                "",
                1_700_000_000,
                math.nan,
                self.text(2),
            ]
        )

    def value(self, depth: int = 0) -> Any:
        """Return any value at all."""
        rng = self.rng
        draws: list[Callable[[], Any]] = [
            lambda: None,
            lambda: rng.choice([True, False]),
            self.number,
            self.text,
            self.name,
            self.moment,
            lambda: rng.choice([b"bytes", bytearray(b"x"), object(), Path("a"), {1, 2}, frozenset(), range(3), ...]),
            lambda: rng.choice([np.zeros(2), np.array("a"), np.datetime64("NaT"), np.str_("x"), int, len, iter([1])]),
        ]
        if depth < 4:
            draws += [
                lambda: [self.value(depth + 1) for _ in range(rng.randint(0, 3))],
                lambda: tuple(self.value(depth + 1) for _ in range(rng.randint(0, 3))),
                lambda: {self.key(): self.value(depth + 1) for _ in range(rng.randint(0, 3))},
            ]
        return rng.choice(draws)()

    def key(self) -> Any:
        return self.name() if self.rng.random() < 0.9 else self.rng.choice([None, 1, True, b"x", ("a",), self.text(2)])

    def metadata(self) -> Any:
        """Return what may be metadata: mostly JSON, at times too deep or of the wrong kind."""
        rng = self.rng
        if rng.random() < 0.1:
            return self.value()
        if rng.random() < 0.03:
            found: Any = {}
            for _ in range(rng.choice([90, 99, 100, 101, 2_000])):
                found = {"a": found} if rng.random() < 0.5 else {"a": [found]}
            return found
        return {self.name(): self._json(0) for _ in range(rng.randint(0, 4))}

    def _json(self, depth: int) -> Any:
        rng = self.rng
        kind = rng.random()
        if kind < 0.25 and depth < 4:
            return {self.name(): self._json(depth + 1) for _ in range(rng.randint(0, 3))}
        if kind < 0.4 and depth < 4:
            return [self._json(depth + 1) for _ in range(rng.randint(0, 3))]
        if kind < 0.95:
            return rng.choice([None, True, False, 0, 7, -1, 2.5, 7.0, 2**63 - 1, "7", "x", "ção", self.text(2)])
        return self.value(4)

    def where(self) -> Any:
        """Return a tree of conditions on metadata."""
        rng = self.rng
        if rng.random() < 0.1:
            return self.value()
        if rng.random() < 0.05:
            return {f"a{n}": n for n in range(rng.choice([50, 101, 2_000]))}
        return {self._path(): self._condition() for _ in range(rng.randint(0, 3))}

    def _path(self) -> Any:
        rng = self.rng
        if rng.random() < 0.1:
            return self.key()
        return ".".join(self.name() for _ in range(rng.choice([1, 1, 2, 3, 25])))

    def _condition(self) -> Any:
        rng = self.rng
        if rng.random() < 0.4:
            return self._json(3)
        found: dict[Any, Any] = {}
        for _ in range(rng.randint(0, 3)):
            operator = rng.choice(_OPERATORS)
            listed = operator == "$in" and rng.random() < 0.8
            found[operator] = [self._json(3) for _ in range(rng.choice([0, 1, 5, 150]))] if listed else self._json(2)
        return found

    def usual(self, draw: Callable[[], Any], share: float = 0.96) -> Any:
        """Return mostly what `draw` gives, at times anything."""
        return draw() if self.rng.random() < share else self.value()

    def some(self, **draws: Callable[[], Any]) -> dict[str, Any]:
        """Return some of the arguments."""
        return {name: self.usual(draw) for name, draw in draws.items() if self.rng.random() < 0.2}

    def fields(self) -> dict[str, Any]:
        """Return the fields of a memory but for its text."""
        rng = self.rng
        return self.some(
            key=self.name,
            namespace=self.name,
            author=self.name,
            thread=self.name,
            position=self.number,
            created_at=self.moment,
            expires_at=self.moment,
            tags=lambda: [self.name() for _ in range(rng.randint(0, 4))],
            metadata=self.metadata,
            entities=lambda: [self.name() for _ in range(rng.randint(0, 3))],
            language=lambda: rng.choice(["pt", "en", "xx", "", None]),
            pinned=lambda: rng.choice([True, False]),
            replaces=lambda: rng.choice([None, 1, 2, rng.randint(1, 300), 10**9]),
        )

    def filters(self) -> dict[str, Any]:
        """Return what search, list and count narrow by."""
        return self.some(
            namespace=self.name,
            tags=lambda: [self.name() for _ in range(self.rng.randint(0, 3))],
            where=self.where,
            after=self.moment,
            before=self.moment,
            thread=self.name,
            author=self.name,
            superseded=lambda: self.rng.choice([True, False]),
        )

    def line(self, fields: Mapping[str, Any]) -> str:
        """Return a line of JSON that may hold a memory, or be broken."""
        import json

        rng = self.rng
        try:
            found = json.dumps(dict(fields), default=str, ensure_ascii=rng.random() < 0.5)
        except (TypeError, ValueError, RecursionError):
            found = '{"text": "a"}'
        what = rng.random()
        if what < 0.1:
            at = rng.randrange(len(found) + 1)
            found = (
                found[:at]
                + rng.choice(["", '"', "{", "]", "\\u0000", "\\ud800", "NaN", "1e999", self.character()])
                + found[at:]
            )
        elif what < 0.15:
            found = rng.choice(
                ["[" * 3_000, '{"a":' * 3_000, "null", "[]", "7", '""', "{}", "NaN", "\ufeff{}", '{"text": null}']
            )
        elif what < 0.2:
            found = rng.choice(
                [
                    '{"term": "X", "aliases": 7}',
                    '{"term": "X", "kind": null, "aliases": ["x y", ""]}',
                    '{"profile": "default", "weights": {}}',
                    '{"profile": "own", "weights": {"keyword": 1e999}}',
                    '{"profile": "own", "weights": {"spaces": {"a": true}}}',
                    '{"id": 5, "text": "a", "updated_at": "2024-01-01"}',
                    '{"id": 1e3, "text": "a", "created_at": "2024-01-01", "updated_at": "2024-01-01"}',
                    '{"id": 3, "text": "a", "created_at": "2024-01-01", "updated_at": "2024-01-01", "uses": -1}',
                    '{"id": 4611686018427387903, "text": "b", "created_at": "2024-01-01", "updated_at": "2024-01-01Z"}',
                ]
            )
        return found
