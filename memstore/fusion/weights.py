"""What each signal counts for: the profiles, the caller's own weights, and their shares of a search."""

import dataclasses
from collections.abc import Mapping

from memstore import checks
from memstore.errors import InvalidInputError
from memstore.records import Weights

PROFILES: Mapping[str, Weights] = {
    "default": Weights(keyword=0.4, semantic=0.4, entity=0.2),
    "technical": Weights(keyword=0.6, semantic=0.2, entity=0.2),
    "conceptual": Weights(keyword=0.3, semantic=0.5, entity=0.2),
    "people": Weights(keyword=0.3, semantic=0.3, entity=0.4),
}
# Shares of a whole; beyond this their sum would lose the smaller ones.
_LARGEST_WEIGHT = 1e6
# With more, what threads lend would count for more than what the signals say.
_LARGEST_THREAD = 1.0
_WEIGHTS = ("keyword", "semantic", "entity", "boost", "thread")


def weights(profile: str, own: Weights | Mapping[str, float] | None) -> Weights:
    """Return the caller's own weights, or those of a profile; raise `InvalidInputError` on what is neither."""
    base = PROFILES[checks.one_of("profile", profile, PROFILES)]
    return base if own is None else checked(own, base)


def checked(own: Weights | Mapping[str, float], base: Weights = PROFILES["default"]) -> Weights:
    """Return weights, given as such or as a mapping of signal or space to number; refuse numbers that mean nothing.

    What a mapping leaves out is as in `base`.
    """
    if isinstance(own, Mapping):
        # What is no signal is the name of a space, which the file must have.
        known = {name: value for name, value in own.items() if name in _WEIGHTS}
        named = {checks.required_name("weight", name): value for name, value in own.items() if name not in _WEIGHTS}
        own = dataclasses.replace(base, **known, spaces={**base.spaces, **named})
    if not isinstance(own, Weights):
        raise InvalidInputError(f"weights is {type(own).__name__}; give Weights, or a mapping of signal to number.")
    if not isinstance(own.spaces, Mapping):
        raise InvalidInputError(f"weights: spaces is {type(own.spaces).__name__}; give a mapping of space to number.")
    for name, given in (*((name, getattr(own, name)) for name in _WEIGHTS), *own.spaces.items()):
        value = checks.native(given)
        most = _LARGEST_THREAD if name == "thread" else _LARGEST_WEIGHT
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise InvalidInputError(
                f"weights: {name if name in _WEIGHTS else checks.brief(name)} is {checks.brief(value)};"
                f" give a number from 0 to {most:,.0f}."
            )
    if own.keyword + own.semantic + own.entity + sum(own.spaces.values()) == 0:
        raise InvalidInputError("weights: keyword, semantic and entity are all 0; at least one must count.")
    return own


def shares(own: Weights, signals: tuple[str, ...], spaces: Mapping[str, str] | None = None) -> dict[str, float]:
    """Return the weight of each signal that takes part, as shares that add up to 1 (all 0 if none counts).

    `spaces` gives the embedding space behind a signal, by the signal's name; those that the weights do not name share
    the semantic weight.
    """
    spaces = spaces or {}
    sharing = [signal for signal in spaces if spaces[signal] not in own.spaces]
    given = {
        signal: own.semantic / len(sharing)
        if signal in sharing
        else float(own.spaces[spaces[signal]] if signal in spaces else getattr(own, signal))
        for signal in signals
    }
    total = sum(given.values())
    return {signal: value / total if total else 0.0 for signal, value in given.items()}
