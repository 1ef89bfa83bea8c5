"""Who and what a text mentions: names, known terms, codes, paths, addresses, money, dates."""

import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import regex

from memstore import checks
from memstore.analysis import CALENDAR, STOP_WORDS, compounds, fold, is_unspaced, pieces, words, written
from memstore.errors import InvalidInputError
from memstore.records import Entity

# What a better recogniser of the caller's own takes and gives: a text, and the name and kind of each entity in it.
Recogniser: TypeAlias = Callable[[str], Iterable[tuple[str, str]]]

# "São" is a verb and a saint; a name such as São Paulo must keep it.
_FUNCTION_WORDS = frozenset(fold(word) for listed in STOP_WORDS.values() for word in listed) - {"sao"}
# What is said before a name at the beginning of a sentence, and is no part of it: Hey John, Obrigada Ana.
_OPENERS = """
hey hi hello dear thanks thank bye wow whoa woah woohoo oh ah aw aww haha yeah yep yes yup nope ok okay well sure sorry
please congrats congratulations welcome great good cool nice awesome amazing absolutely definitely exactly totally glad
happy maybe perhaps sometimes lately recently now today tomorrow yesterday last next remember wish whenever since
anytime
olá oi ei caro cara querido querida prezado prezada obrigado obrigada valeu tchau parabéns desculpa desculpe bom boa
claro talvez hoje ontem amanhã agora
hola estimado estimada gracias adiós felicidades perdón bueno buena buenos buenas hoy ayer mañana ahora quizás vale
"""
_BEFORE_NAMES = _FUNCTION_WORDS | frozenset(map(fold, _OPENERS.split()))
# Small words inside a name: Maria da Silva, Juan de la Cruz, Vincent van Gogh.
_PARTICLE = r"(?:da|de|do|das|dos|del|della|di|du|d|la|las|los|le|van|von|der|den|bin|ibn|al|el|of|the)"
_CAPITALISED = r"[\p{Lu}\p{Lt}][\p{L}\p{M}\p{N}]*(?:['’&.-][\p{L}\p{M}\p{N}]+)*"
# A currency such as R$ is no name.
_NAME = regex.compile(
    rf"\b{_CAPITALISED}(?!\p{{Sc}})(?:[ \u00a0](?:{_PARTICLE}[ \u00a0]){{0,2}}{_CAPITALISED}(?!\p{{Sc}}))*"
)
# A sentence goes on behind these; behind a mark, an emoji or nothing it begins.
_GOES_ON = regex.compile(r"[\p{L}\p{M}\p{N}\p{Sc},'’)\]&/%+][ \u00a0\t]*$")
_LEADING_PARTICLES = regex.compile(rf"^(?:{_PARTICLE}[ \u00a0])+")
_POSSESSIVE = regex.compile(r"['’]s$")
# It parts what stands around it: I'm Caroline, Glad I met Ana.
_PRONOUN = regex.compile(r"(?:^|[ \u00a0])I(?:['’]\w+)?(?=$|[ \u00a0])")
_INNER_CAPITAL = regex.compile(r"\p{L}\p{Lu}|\d")
_URL = regex.compile(r"(?:https?|ftp)://\S+|www\.\S+")
_ADDRESS = regex.compile(r"[^@\s]+@[^@\s]+\.\p{L}+")
_HANDLE = regex.compile(r"@[\w.-]+")
_TAG = regex.compile(r"#\p{L}[\w-]*")
_FILE = regex.compile(
    r"[\w.-]*\w\.(?:c|cc|cfg|conf|cpp|cs|css|csv|db|docx?|env|gif|go|h|html?|ini|ipynb|java|jpe?g|js|json|jsx|kt|lock|log|md"
    r"|mp3|mp4|onnx|pdf|php|png|pptx?|py|rb|rs|rst|sh|sql|sqlite|svg|tar|toml|tsx?|txt|wav|xlsx?|xml|ya?ml|zip)"
)
_PATH = regex.compile(r"(?:~|\.{1,2}|\p{L}:)?[/\\][^/\\].*|[\w.@-]+(?:[/\\][\w.@-]+){2,}|[\w.@-]+[/\\][\w.@-]*\.\w+")
_CODE = regex.compile(r"#\d+|(?=.*\p{L})(?=.*\d)[\w.+#/:-]+|\w+_\w+|\p{L}+(?:\+\+|#)|\.\p{L}\w+")
_PLAIN_CODE = regex.compile(r"\p{L}+\d[\p{L}\d]*")
# Bounded, or a long row of numbers would be read again from each of them.
_AMOUNT = r"(?<![0-9.,])[0-9](?:[0-9.,\u00a0]{0,20}[0-9])?"
_SCALE = r"(?:[ \u00a0](?:mil|thousand|million|billion|milhões|milhão|bilhões|millones|millón)\b|(?:k|mi|bi)\b)?"
_CURRENCY = r"€|£|reais|euros?|d[óo]lares|dollars?|pesos|USD|BRL|EUR|GBP|MXN|ARS"
_MONEY = regex.compile(
    rf"(?P<sign>\b[A-Z]{{1,3}}\$|\p{{Sc}})[ \u00a0]?(?P<amount>{_AMOUNT}{_SCALE})"
    rf"|\b(?P<amount>{_AMOUNT}{_SCALE})[ \u00a0]?(?P<sign>{_CURRENCY})(?!\w)",
    regex.IGNORECASE,
)
LONGEST_NAME = 80
_IDENTIFIERS = frozenset({"code", "path", "url", "address", "handle"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentions:
    """The entities of a text by their keys; `doubtful` are words that may only have a sentence's capital."""

    sure: Mapping[str, Entity]
    doubtful: Mapping[str, Entity] = field(default_factory=dict)


def key(name: str) -> str:
    """Return the form under which two spellings are one entity: no case, no accents, single blanks."""
    return " ".join(fold(unicodedata.normalize("NFC", name)).split())


def reading(spelling: str) -> str:
    """Return a spelling as texts are compared with it: folded, its pieces parted by blanks, the marks around them off.

    `Dr. Silva` reads `dr silva` and `Yahoo!` reads `yahoo`, while `C++` and `U.S.A` stay what they are.
    """
    return " ".join(" ".join(words(piece)) if is_unspaced(piece) else piece for piece, _ in pieces(key(spelling)))


def find(text: str, terms: Mapping[str, Entity] | None = None, recogniser: Recogniser | None = None) -> Mentions:
    """Return the entities that a text mentions: known `terms`, runs of capitals, addresses, paths, codes, money, dates.

    `terms` are known spellings by their `reading`. A single capitalised word that begins a sentence is in doubt: it is
    a name where the same text or another memory has it inside a sentence. What a `recogniser` gives is added; one that
    fails is reported as a warning and costs only what it would have found.
    """
    text = unicodedata.normalize("NFC", text)
    sure: dict[str, Entity] = {}
    prose, end = [], 0
    for start, stop, entity in sorted(_marked(text), key=lambda one: (one[0], -one[1])):
        if start < end:
            continue
        sure.setdefault(key(entity.name), entity)
        # What is inside a path or an address is no name by itself; a full stop keeps what stands around it apart.
        prose += [text[end:start], " . "]
        end = stop
    names, openers = _names("".join([*prose, text[end:]]))
    for name in names:
        sure.setdefault(key(name), Entity(name=name, kind="name"))
    for name, kind in _recognised(text, recogniser):
        sure[key(name)] = Entity(name=name, kind=kind)
    doubtful = {key(name): Entity(name=name, kind="name") for name in openers if key(name) not in sure}
    if terms:
        for found in [*sure.values()]:
            # What is known by another spelling than the text's own: a date, money, what a recogniser gives.
            if (known := terms.get(reading(found.name))) is not None:
                sure.pop(key(found.name))
                sure[key(known.name)] = known
        longest = max(spelling.count(" ") + 1 for spelling in terms)
        for gram in grams(text, longest):
            known = terms.get(gram)
            if known is not None:
                # A known term takes the place of what was found under the same spelling.
                sure.pop(gram, None)
                doubtful.pop(gram, None)
                sure[key(known.name)] = known
    return Mentions(sure=sure, doubtful=doubtful)


def grams(text: str, longest: int) -> Iterator[str]:
    """Yield the readings of all runs of up to `longest` pieces, and of the words inside pieces."""
    whole: list[str] = []
    parted: list[str] = []
    as_written: list[str] = []
    for piece, _ in pieces(text):
        plain = _POSSESSIVE.sub("", piece)
        whole.append(fold(plain))
        as_written.append(fold(piece))
        parted.extend(fold(word) for word in words(plain))
    for sequence in (whole, parted, as_written) if as_written != whole else (whole, parted):
        for start in range(len(sequence)):
            for stop in range(start + 1, min(start + longest, len(sequence)) + 1):
                yield " ".join(sequence[start:stop])


def is_function_word(spelling: str) -> bool:
    """Say whether the key of a spelling is a word of grammar, which names nothing."""
    return spelling in _FUNCTION_WORDS


def _marked(text: str) -> Iterator[tuple[int, int, Entity]]:
    """Yield what is known by its form, and where it stands: dates, money, links, addresses, paths, codes."""
    for start, stop, day in written(text):
        yield start, stop, Entity(name=day, kind="date")
    for match in _MONEY.finditer(text):
        sign, amount = match["sign"], " ".join(match["amount"].split())
        name = f"{sign.upper()} {amount}" if not sign[0].isalpha() or "$" in sign else f"{amount} {sign}"
        yield *match.span(), Entity(name=name, kind="money")
    for piece, start in pieces(text):
        # A megabyte without a blank would be read again from each of its marks.
        if len(piece) <= LONGEST_NAME and (kind := _kind(piece)) is not None:
            yield start, start + len(piece), Entity(name=piece, kind=kind)


def has_identifier(text: str) -> bool:
    """Say whether a text names something by what only that has: a code, path, link, address or handle."""
    return any(entity.kind in _IDENTIFIERS for _, _, entity in _marked(text))


def _kind(piece: str) -> str | None:
    """Return what a piece of text is beyond words: url, address, handle, tag, path, code; None for words."""
    if _URL.fullmatch(piece):
        return "url"
    if _ADDRESS.fullmatch(piece):
        return "address"
    if _HANDLE.fullmatch(piece):
        return "handle"
    if _TAG.fullmatch(piece):
        return "tag"
    if _PATH.fullmatch(piece) or _FILE.fullmatch(piece):
        return "path"
    if _PLAIN_CODE.fullmatch(piece) or (_CODE.fullmatch(piece) and next(compounds(piece), None)):
        return "code"
    return None


def _names(text: str) -> tuple[list[str], list[str]]:
    """Return the runs of capitalised words, and the single words that only open a sentence."""
    names: list[str] = []
    opening: list[str] = []
    for match in _NAME.finditer(text):
        starts = _GOES_ON.search(text[max(0, match.start() - 40) : match.start()]) is None
        for part in _PRONOUN.split(match.group()):
            _name(part.strip(" \u00a0"), names, opening, starts=starts)
            starts = False
    return names, opening


def _name(name: str, names: list[str], opening: list[str], *, starts: bool) -> None:
    """Add a run of capitalised words to the names, or to those that only open a sentence, where it is one."""
    if starts:
        while name and ((first := name.partition(" ")[0]) in CALENDAR or fold(first) in _BEFORE_NAMES):
            # "A Ana", "Hey John": that word goes, and what follows stands inside the sentence.
            name, starts = _LEADING_PARTICLES.sub("", name.partition(" ")[2]), False
    if fold(name) in _FUNCTION_WORDS:
        return
    name = _POSSESSIVE.sub("", name)
    # A single letter (plan B) and a shouted sentence are no names.
    if len(name) < 2 or (name.isupper() and name.count(" ") > 1) or len(name) > LONGEST_NAME:
        return
    if not name[0].isupper() or name in CALENDAR:
        return
    if starts and " " not in name and not _INNER_CAPITAL.search(name):
        opening.append(name)
        return
    names.append(name)
    if starts and " " in name:
        # The first word may only be the sentence's capital: "Chamamos Maria Silva".
        rest = _LEADING_PARTICLES.sub("", name.partition(" ")[2])
        if rest and rest[0].isupper() and len(rest) > 1:
            (names if " " in rest else opening).append(rest)


def _recognised(text: str, recogniser: Recogniser | None) -> list[tuple[str, str]]:
    """Return what the caller's own recogniser finds, nothing where it fails or gives what can't be stored."""
    if recogniser is None:
        return []
    found: list[tuple[str, str]] = []
    unusable = 0
    try:
        for name, kind in recogniser(text):
            try:
                named, kinded = (
                    checks.name("a recognised name and kind", one, longest=LONGEST_NAME) for one in (name, kind)
                )
            except InvalidInputError:
                named = kinded = None
            if named is None or kinded is None:
                unusable += 1
            else:
                found.append((" ".join(named.split()), kinded))
    except Exception as error:
        said = str(error).partition("\n")[0][:200]
        warnings.warn(
            f"the recogniser failed ({type(error).__name__}: {said}); names were found without it.", stacklevel=2
        )
        return []
    if unusable:
        warnings.warn(
            f"the recogniser gave {unusable} names or kinds that can't be used; they were left out.", stacklevel=2
        )
    return found
