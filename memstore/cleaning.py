"""Text without what would act on a terminal or hide in a prompt: controls, escape codes, invisible orders."""

import re

# Beside controls: what turns the direction of the text round it, what has no width or shows nothing, and the tag
# characters and long runs of variation selectors that carry hidden text
# (https://www.unicode.org/reports/tr36/#Bidirectional_Text_Spoofing). Joiners stay: scripts and emoji need them.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]"
    "|[\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
    # One behind a Chinese character chooses how it is drawn.
    "|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)


def plain(text: str) -> str:
    """Return a text without terminal escape codes, control characters, and what is there without being seen."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))
