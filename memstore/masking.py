"""Secrets that are known by their shape: keys and tokens of services, private keys; never a word such as password."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# As their services document them: a prefix of their own and a length, so that prose is hardly ever taken for one.
_SHAPES = {
    "AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})\b",
    "GitLab token": r"\bglpat-[\w-]{20,}",
    "Slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "Google key": r"\bAIza[\w-]{35}\b",
    "Stripe key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}\b",
    # Without a digit it is words joined by hyphens: sk-learn-something.
    "model key": r"(?<![\w-])sk-(?:ant-|proj-)?(?=[\w-]*\d)[\w-]{20,}",
    # Only the start of a run is tried: each of a long run's many starts would read it to its end.
    "JSON web token": r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)",
}
# A text without any of these has none: looking for them is ten times as fast as trying the shapes.
_MARKS = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AIza"),
    *("k_live_", "k_test_", "sk-", "eyJ", "-----BEGIN "),
)
_SECRET = re.compile(
    "|".join(f"(?P<shape{number}>{shape})" for number, shape in enumerate(_SHAPES.values())), re.DOTALL
)
_NAMES = tuple(_SHAPES)


class Redaction:
    """Masks the secrets of all that leaves together, and counts them.

    A secret has the same mask wherever it stands and another one of its kind has a mask with a number, so that two keys
    or names that differ by their secrets still do.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._masks: dict[str, str] = {}
        self._different: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """Return a text with a mask in the place of each secret."""
        return _replaced(text, self._mask)

    def value(self, value: Any) -> Any:
        """Return a JSON value with every text in it masked, the names of its fields too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(name): self.value(one) for name, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list | tuple) else value

    def _mask(self, secret: str, kind: str) -> str:
        self.counts[kind] += 1
        if secret not in self._masks:
            self._different[kind] += 1
            number = self._different[kind]
            self._masks[secret] = f"[masked: {kind}]" if number == 1 else f"[masked: {kind} {number}]"
        return self._masks[secret]


def masked(text: str) -> str:
    """Return a text with `[masked: KIND]` in the place of each secret; keys of documentation, which say so, stay."""
    return _replaced(text, lambda _, kind: f"[masked: {kind}]")


def masked_values(value: Any) -> Any:
    """Return a JSON value with each text in it as `masked` gives it; the names of its fields stay."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {name: masked_values(one) for name, one in value.items()}
    return [masked_values(one) for one in value] if isinstance(value, list | tuple) else value


def secret_in(value: Any) -> str | None:
    """Return the kind of a secret that stands in a text of a JSON value; None where none does."""
    for text in _texts(value):
        if any(mark in text for mark in _MARKS):
            for found in _SECRET.finditer(text):
                if not _is_example(found):
                    return _kind(found)
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def _replaced(text: str, mask: Callable[[str, str], str]) -> str:
    if not any(mark in text for mark in _MARKS):
        return text
    return _SECRET.sub(lambda found: found[0] if _is_example(found) else mask(found[0], _kind(found)), text)


def _is_example(found: re.Match[str]) -> bool:
    return "EXAMPLE" in found[0]


def _kind(found: re.Match[str]) -> str:
    return next(name for number, name in enumerate(_NAMES) if found[f"shape{number}"] is not None)
