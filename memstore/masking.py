"""Secrets that are known by their shape: keys and tokens of services, private keys; never a word such as password."""

import re

# As their services document them: a prefix of their own and a length, so that prose is hardly ever taken for one.
_SHAPES = {
    "AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})\b",
    "GitLab token": r"\bglpat-[\w-]{20,}",
    "Slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "Google key": r"\bAIza[\w-]{35}\b",
    "Stripe key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}\b",
    "model key": r"\bsk-(?:ant-|proj-)?[\w-]{20,}",
    "JSON web token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)",
}
_SECRET = re.compile(
    "|".join(f"(?P<shape{number}>{shape})" for number, shape in enumerate(_SHAPES.values())), re.DOTALL
)
_NAMES = tuple(_SHAPES)


def masked(text: str) -> str:
    """Return a text with `[masked: KIND]` in the place of each secret; keys of documentation, which say so, stay."""
    return _SECRET.sub(_mask, text)


def _mask(found: re.Match[str]) -> str:
    if "EXAMPLE" in found[0]:
        return found[0]
    kind = next(name for number, name in enumerate(_NAMES) if found[f"shape{number}"] is not None)
    return f"[masked: {kind}]"
