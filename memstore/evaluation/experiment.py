"""A store's answers to judged questions: each signal alone, each way to put them together, and what follows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np

from memstore import checks
from memstore.evaluation import sweeps, verdict
from memstore.evaluation.answering import (
    DEPTH,
    Asked,
    Asker,
    Progress,
    Ranked,
    Searcher,
    alone,
    one_space,
    ranked,
    resolved,
    spaces_of,
    values,
)
from memstore.evaluation.measures import MEASURES, Estimate, Values, differences, estimates
from memstore.evaluation.questions import Judged
from memstore.evaluation.report import Evaluation, Kind, Margins, Overlap, Run
from memstore.evaluation.sweeps import DEPTHS
from memstore.evaluation.verdict import Facts
from memstore.fusion import DEFAULT_FUSION, METHODS, PROFILES, RERANK, Gathered, weighed
from memstore.records import Weights

DEFAULT = "default"
KEYWORD, SEMANTIC, ENTITY = "keyword", "semantic", "entity"
NO_CATEGORY = "(none)"
# With more questions the depths, which ask all of them again, wait until they are asked for.
_MOST_FOR_DEPTHS = 300
_HIT_1, _HIT_10 = MEASURES.index("hit@1"), MEASURES.index("hit@10")
# What a signal alone would have to do. Its share of completing the other signals' candidates is left out: alone, it
# would have none to complete.
_STAGES = {KEYWORD: ("analyse", "keyword"), ENTITY: ("analyse", "entity"), SEMANTIC: ("analyse", "embed", "semantic")}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to rank what was gathered, and the stages of a search that it needs (None: all, or not known)."""

    name: str
    kind: Kind
    rank: Callable[[Gathered], Ranked]
    stages: tuple[str, ...] | None = None
    timed: bool = True


def evaluate(
    searcher: Searcher,
    questions: Sequence[Judged],
    *,
    store: str = "",
    profiles: Mapping[str, Weights] = PROFILES,
    depths: Sequence[int] = DEPTHS,
    sweep: str | None = None,
    rerank: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Return what a store's answers to judged questions are worth.

    Each question is gathered once, with 50 candidates of each signal, and ranked in many ways: by each signal or
    embedding space alone, by each fusion method with the weights of the profile `default`, by the default fusion with
    those of the other `profiles`, without what threads lend where there are threads, and with one embedding space alone
    where there are several. For `depths` all are gathered again, unless there are more than 300 questions. `sweep`
    (`alpha`, `k1`, `b`, `rrf-k`, `depth`) adds the whole curve of one parameter. `store` is the name that is shown.
    With `rerank` the second stage reads so many of each question's best again, which is one more run; where it can't,
    the order before it stands, as in a search, and where it never can, a note says why, and there is no such run.

    The milliseconds of a run are the median over questions of the stages that it needs, for the second stage over
    those that it read; those of putting scores together, some tenths of one, are not counted. The query is embedded
    beside the keyword search, and only what is waited for after it counts; where several spaces are asked at once, what
    each took is not known.

    Raises `InvalidInputError` when no question has a right memory in the store, on an unknown sweep, on a `rerank`
    below 0, and for `alpha` where keywords and vectors never take part together.
    """
    sweeps.checked(sweep)
    rerank = checks.whole("rerank", rerank, least=0)
    asked, notes = resolved(searcher, questions)
    asker = Asker(searcher, asked, progress)
    deep = tuple(depths) if sweep == "depth" or len(asked) <= _MOST_FOR_DEPTHS else ()
    if sweep == "depth":
        deep = deep or DEPTHS
    asker.expect(1 + sweeps.rounds(sweep, deep))
    gathers = asker.gather(rerank=rerank)
    weights = profiles.get(DEFAULT, PROFILES[DEFAULT])
    spaces = spaces_of(gathers)
    ways = list(_ways(gathers, weights, profiles, spaces))
    found = {way.name: values(asked, map(way.rank, gathers)) for way in ways}
    best = _best({way.name: found[way.name] for way in ways if way.kind == "signal"})
    margins = _margins(asked, gathers, weights)
    curves = [sweeps.swept(sweep, asker, gathers, weights)] if sweep not in (None, "depth") else []
    if deep:
        curves.append(sweeps.depth_curve(asker, gathers, weights, deep, warn=sweep == "depth"))
    vectors = _vectors(found, spaces)
    overlap = _overlap(found, ways, vectors)
    facts = _facts(asked, gathers, weights, ways, found, spaces, vectors, rerank)
    return Evaluation(
        store=store,
        questions=len(asked),
        categories=_categories(asked),
        default=DEFAULT,
        runs=_runs(asked, ways, found, best, gathers),
        overlap=overlap,
        margins=margins,
        curves=tuple(curves),
        verdict=verdict.sentences(facts, overlap),
        notes=(
            *notes,
            *_notes(gathers, len(asked), weights, spaces),
            *_more_notes(margins, bool(deep)),
            _second_stage(gathers, rerank, asker.refused),
        ),
        missed={
            name: tuple(one.question.id for one, hit in zip(asked, found[name][:, _HIT_10], strict=True) if not hit)
            for name in dict.fromkeys((DEFAULT, KEYWORD, vectors))
            if name in found
        },
    )


def _ways(
    gathers: Sequence[Gathered], weights: Weights, profiles: Mapping[str, Weights], spaces: Sequence[str]
) -> Iterator[_Way]:
    took_part = {name for found in gathers for name in found.signals}
    for name in (KEYWORD, ENTITY):
        if name in took_part:
            yield _Way(name=name, kind="signal", rank=partial(alone, name=name), stages=_STAGES[name])
    for space in spaces:
        name = SEMANTIC if len(spaces) == 1 else space
        yield _Way(
            name=name,
            kind="signal",
            rank=partial(alone, name=space),
            stages=_STAGES[SEMANTIC],
            timed=len(spaces) == 1,
        )
    yield _Way(name=DEFAULT, kind="fusion", rank=partial(ranked, weights=weights))
    for how in METHODS:
        if how != DEFAULT_FUSION:
            yield _Way(name=how, kind="fusion", rank=partial(ranked, weights=weights, how=how))
    if any(found.reread is not None for found in gathers):
        yield _Way(name=RERANK, kind="rerank", rank=partial(ranked, weights=weights, again=True))
    for name, own in profiles.items():
        if name != DEFAULT:
            yield _Way(name=_variant(name), kind="variant", rank=partial(ranked, weights=own))
    if any(found.turns is not None for found in gathers):
        quiet = replace(weights, thread=0.0)
        yield _Way(name="no threads", kind="variant", rank=partial(ranked, weights=quiet))
    if len(spaces) > 1:
        for space in spaces:
            yield _Way(
                name=_only(space),
                kind="variant",
                rank=partial(_in_space, space=space, weights=weights),
                timed=False,
            )


def _in_space(gathered: Gathered, space: str, weights: Weights) -> Ranked:
    return ranked(one_space(gathered, space), weights)


def _variant(profile: str) -> str:
    """Return the run of a profile; one of the user's own may be called like a fusion method, a signal or a stage."""
    return f"profile {profile}" if profile in METHODS or profile in _STAGES or profile == RERANK else profile


def _only(space: str) -> str:
    return f"only {space}"


def _best(signals: Mapping[str, Values]) -> Values | None:
    """Return the measures of the signal that alone puts most right memories first, None without any signal."""
    last = len(MEASURES) - 1
    return max(signals.values(), key=lambda own: (own[:, _HIT_1].mean(), own[:, last].mean()), default=None)


def _runs(
    asked: Sequence[Asked],
    ways: Sequence[_Way],
    found: Mapping[str, Values],
    best: Values | None,
    gathers: Sequence[Gathered],
) -> tuple[Run, ...]:
    names = [way.name for way in ways]
    # All columns at once, since the resamples are the same for all.
    total = _by_run(names, estimates(np.hstack([found[name] for name in names])))
    against: Mapping[str, Mapping[str, Estimate]] = {}
    others = [way.name for way in ways if way.kind != "signal"]
    if best is not None:
        ones = np.hstack([found[name] for name in others])
        against = _by_run(others, differences(ones, np.tile(best, len(others))))
    categories: dict[str, dict[str, Mapping[str, Estimate]]] = {name: {} for name in names}
    for category in _categories(asked):
        there = np.array([_category(one) == category for one in asked])
        own = _by_run(names, estimates(np.hstack([found[name][there] for name in names])))
        for name in names:
            categories[name][category] = own[name]
    return tuple(
        Run(
            name=way.name,
            kind=way.kind,
            measures=total[way.name],
            categories=categories[way.name],
            against=against.get(way.name),
            milliseconds=_milliseconds(gathers, way),
        )
        for way in ways
    )


def _by_run(names: Sequence[str], given: Sequence[Estimate]) -> dict[str, Mapping[str, Estimate]]:
    width = len(MEASURES)
    return {
        name: dict(zip(MEASURES, given[width * row : width * (row + 1)], strict=True)) for row, name in enumerate(names)
    }


def _milliseconds(gathers: Sequence[Gathered], way: _Way) -> float | None:
    if not way.timed:
        return None
    again = way.kind == "rerank"
    spent = [
        sum(
            spent
            for stage, spent in one.timings.items()
            if (again or stage != RERANK) and (way.stages is None or stage in way.stages)
        )
        for one in gathers
        if one.timings and (one.reread is not None or not again)
    ]
    return median(spent) if spent else None


def _category(one: Asked) -> str:
    return NO_CATEGORY if one.question.category is None else one.question.category


def _categories(asked: Sequence[Asked]) -> dict[str, int]:
    """Return how many questions each category has, nothing where no question names one."""
    if all(one.question.category is None for one in asked):
        return {}
    found: dict[str, int] = {}
    for one in asked:
        found[_category(one)] = found.get(_category(one), 0) + 1
    return found


def _vectors(found: Mapping[str, Values], spaces: Sequence[str]) -> str:
    """Return the run of vectors alone, that of the best of several spaces; where there are none, what it would be."""
    if len(spaces) < 2:
        return SEMANTIC
    return max(spaces, key=lambda name: float(found[name][:, _HIT_1].mean()))


def _overlap(found: Mapping[str, Values], ways: Sequence[_Way], vectors: str) -> Overlap | None:
    if KEYWORD not in found or vectors not in found:
        return None
    keyword, semantic = found[KEYWORD][:, _HIT_1] > 0, found[vectors][:, _HIT_1] > 0
    signals = np.stack([found[way.name][:, _HIT_1] for way in ways if way.kind == "signal"])
    return Overlap(
        both_right=int((keyword & semantic).sum()),
        only_keyword_wrong=int((~keyword & semantic).sum()),
        only_semantic_wrong=int((keyword & ~semantic).sum()),
        both_wrong=int((~keyword & ~semantic).sum()),
        attainable=float(signals.max(axis=0).mean()),
    )


def _margins(asked: Sequence[Asked], gathers: Sequence[Gathered], weights: Weights) -> Margins:
    margins = []
    for one, gathered in zip(asked, gathers, strict=True):
        if not len(gathered.ids):
            continue
        scores, right = weighed(gathered, weights).scores, np.isin(gathered.ids, list(one.relevant))
        ours, theirs = scores[right & gathered.eligible], scores[~right & gathered.eligible]
        if ours.size and theirs.size:
            margins.append(float(ours.max() - theirs.max()))
    return Margins(values=tuple(margins))


def _facts(
    asked: Sequence[Asked],
    gathers: Sequence[Gathered],
    weights: Weights,
    ways: Sequence[_Way],
    found: Mapping[str, Values],
    spaces: Sequence[str],
    vectors: str,
    rerank: int,
) -> Facts:
    first = {name: own[:, _HIT_1] for name, own in found.items()}
    there = [found[name][:, _HIT_10] for name in (KEYWORD, vectors) if name in found]
    only = {_only(space): space for space in spaces} if len(spaces) > 1 else {}
    read = rerank if RERANK in found else DEPTH
    deep = [
        not one.relevant.isdisjoint(ranked(gathered, weights, first=read))
        for one, gathered in zip(asked, gathers, strict=True)
    ]
    times = {way.name: _milliseconds(gathers, way) for way in ways}
    return Facts(
        default=first[DEFAULT],
        signals={way.name: first[way.name] for way in ways if way.kind == "signal"},
        first_ten=found[DEFAULT][:, _HIT_10],
        candidates=np.array(deep, dtype=np.float64),
        nowhere=1.0 - np.max(there, axis=0) if there else np.ones(len(asked)),
        profiles={
            way.name: first[way.name] for way in ways if way.kind == "variant" and way.name not in (*only, "no threads")
        },
        spaces={space: first[name] for name, space in only.items()},
        reread=first.get(RERANK),
        read=read,
        milliseconds={name: spent for name, spent in times.items() if spent is not None},
        vectors=vectors in found,
    )


def _notes(gathers: Sequence[Gathered], questions: int, weights: Weights, spaces: Sequence[str]) -> Iterator[str]:
    shares = f"{weights.keyword:g}/{weights.semantic:g}/{weights.entity:g}"
    yield (
        f"The run default is a search without options: the fusion {DEFAULT_FUSION}, keywords, vectors and names weighed"
        f" {shares}. The other fusions have these weights too, the profiles this fusion."
    )
    wordless = sum(not found.signals for found in gathers)
    if wordless:
        yield f"{wordless:,} of the questions have no words to search for, and count as not answered."
    silent = sum(bool(found.signals) and not any(one.space for one in found.signals.values()) for found in gathers)
    if silent:
        yield (
            f"Vectors took no part in {silent:,} of {questions:,} questions; memstore search says why, and memstore"
            " stats which model the file wants."
        )
    if len(spaces) > 1:
        yield (
            f"There are {len(spaces)} embedding spaces; what is said of vectors alone is of the one that alone puts"
            " most right memories first."
        )


def _more_notes(margins: Margins, deep: bool) -> Iterator[str]:
    if margins.median is not None and margins.above_zero is not None:
        yield (
            f"For {len(margins.values):,} of the questions both a right and a wrong memory are candidates; the score of"
            f" the right one is higher for {margins.above_zero:.1%}, and in the median by {margins.median:+.3f}."
        )
    if not deep:
        yield "What depth does was not measured, since it asks all questions again; --sweep depth does."


def _second_stage(gathers: Sequence[Gathered], rerank: int, refused: Sequence[str]) -> str:
    """Return what to know of the run with a second stage, or why there is none."""
    if not rerank:
        return "There is no run with a second stage, which reads the best again; --rerank adds one."
    weight = next((found.reread.weight for found in gathers if found.reread is not None), None)
    if weight is None:
        why = refused[0] if refused else "no question has a memory to read again"
        return f"There is no run with a second stage: {why}."
    said = (
        f"The run {RERANK} is the run {DEFAULT} with its best {rerank:,} read again by the store's reranker, which"
        f" counts for {weight:g} of the score. It may remember what it read for earlier questions, as late interaction"
        " does: the first ones of a process take longer than the median."
    )
    if not refused:
        return said
    return (
        f"{said} For {len(refused):,} of {len(gathers):,} questions it read nothing, and the order before it stands;"
        f" the first time: {refused[0]}."
    )
