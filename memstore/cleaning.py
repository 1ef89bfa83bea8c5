"""Text without what would act on a terminal or hide in a prompt: controls, escape codes, invisible orders."""

import regex

# Escape codes whole, the other controls, and what stands for no character.
_CONTROL = regex.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"
    r"|[\ufff9-\ufffb]|\p{Noncharacter_Code_Point}"
)
_LINE_END = regex.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
# All that is there without being seen: what has no width, turns the direction of the text round it, chooses how a
# character is drawn, and tags. Runs of these carry hidden text (https://www.unicode.org/reports/tr44/, for the
# property; https://www.unicode.org/reports/tr36/#Bidirectional_Text_Spoofing).
_HIDDEN = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
# Of a run the one selector and the one joiner that scripts and emoji need: a selector of emoji or text style behind a
# picture or in a key, one of a shape behind an ideograph or a Mongolian letter.
_SELECTOR = regex.compile(
    r"(?<=\p{Extended_Pictographic})[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    r"|(?<=\p{Unified_Ideograph})[\ufe00-\ufe02\U000e0100-\U000e01ef]|(?<=\p{Mongolian})[\u180b-\u180d\u180f]"
)
_JOINER = regex.compile(r"[\u200c\u200d]")
_JOINED = regex.compile(r"[\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]")
# The flag of a part of a country, by its code, such as gbeng (https://www.unicode.org/reports/tr51/, ED-14a).
_FLAG = regex.compile(r"(?<=\U0001f3f4)[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")


def plain(text: str) -> str:
    """Return a text without terminal escape codes, control characters, and what is there without being seen.

    Every line end becomes a line feed; tabs stay. Of what is invisible only what its neighbours need stays: one joiner
    between letters or emoji, one variation selector where it belongs, the tags of a flag.
    """
    return _HIDDEN.sub(_needed, _CONTROL.sub("", _LINE_END.sub("\n", text)))


def _needed(run: regex.Match[str]) -> str:
    """Return what of a run of invisible characters the characters on both sides of it need."""
    first = _FLAG.match(run.string, run.start()) or _SELECTOR.match(run.string, run.start())
    kept = "" if first is None else first.group()
    joiner = _JOINER.search(run.string, run.start() + len(kept), run.end())
    sides = (run.string[run.start() - 1 : run.start()], run.string[run.end() : run.end() + 1])
    return kept + joiner.group() if joiner and all(map(_JOINED.match, sides)) else kept
