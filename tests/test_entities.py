"""Who and what a memory mentions: what is recognised, what the user adds to it, and what that counts for."""

import math

import pytest

from memstore import InvalidInputError, Memory, MemoryStore, NewMemory, NotFoundError, entities
from memstore.entities import find, key, rarity
from memstore.records import Entity


def names(text: str) -> dict[str, str]:
    return {entity.name: entity.kind for entity in find(text).values()}


def mentioned(memory: Memory | None) -> list[str]:
    return [entity.name for entity in memory.entities]


def raw(store: MemoryStore, query: str, **options) -> dict[str, float | None]:
    return {hit.memory.text: hit.signals["entity"].raw for hit in store.search(query, k=20, **options)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ontem falei com Maria da Silva", ["Maria da Silva"]),
        ("fui a São Paulo", ["São Paulo"]),
        ("a Transportadora Rapidão Tupã atrasou", ["Transportadora Rapidão Tupã"]),
        ("I met Juan de la Cruz there", ["Juan de la Cruz"]),
        ("a painting by Vincent van Gogh", ["Vincent van Gogh"]),
        ("meeting with O'Brien and Jean-Luc Picard", ["O'Brien", "Jean-Luc Picard"]),
        ("e a AT&T disse", ["AT&T"]),
        ("я видел Анну Каренину", ["Анну Каренину"]),
        ("fui a İstanbul com Ángel Núñez", ["İstanbul", "Ángel Núñez"]),
        ("see Maria's note", ["Maria"]),
        ("Maria da Silva ligou para João", ["Maria da Silva", "João"]),
        ("the report on NASA", ["NASA"]),
        ("NASA launched", ["NASA"]),
        ("eu acho que não", []),
        ("I think so and I am", []),
    ],
)
def test_names(text, expected):
    """A name is a run of capitalised words in any alphabet, with the particles inside it."""
    found = names(text)
    assert found.items() >= dict.fromkeys(expected, "name").items()
    assert expected or found == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ontem falei com ela.", []),
        ("Falei com ela. Depois saí.", []),
        ("A Ana ligou.", ["Ana"]),
        ("Quando Maria chegou", ["Maria"]),
        ("The Beatles", ["Beatles"]),
        ("Ana ligou. Depois a Ana saiu.", ["Ana"]),
        ("Ana ligou. Depois saiu.", []),
        ("“Hoje não”, disse ela", []),
        ("¿Cómo está?", []),
        ("- Ontem choveu", []),
        ("Django rocks", []),
        ("we use Django", ["Django"]),
    ],
)
def test_sentence_starts(text, expected):
    """A single capitalised word that begins a sentence is no name, unless the text has it inside another."""
    assert list(names(text)) == expected


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("what ERR-4018 means", "ERR-4018", "code"),
        ("it failed (err4018).", "err4018", "code"),
        ("issue #88 is open", "#88", "code"),
        ("about v4.0.2-rc1,", "v4.0.2-rc1", "code"),
        ("use read_csv_safe() here", "read_csv_safe", "code"),
        ("we write C++ here", "C++", "code"),
        ("on .NET 8", ".NET", "code"),
        ("cff90d7c-a2ec-4437-aebf-5ba515430241", "cff90d7c-a2ec-4437-aebf-5ba515430241", "code"),
        ("see src/db.py.", "src/db.py", "path"),
        ("see README.md", "README.md", "path"),
        ("in /etc/hosts and", "/etc/hosts", "path"),
        ("in ~/notes/plan.md", "~/notes/plan.md", "path"),
        (r"in C:\temp\x.txt", r"C:\temp\x.txt", "path"),
        ("see https://ex.org/a?b=1.", "https://ex.org/a?b=1", "url"),
        ("see www.ex.org", "www.ex.org", "url"),
        ("write to <ana@example.org>", "ana@example.org", "address"),
        ("ask @bia", "@bia", "handle"),
        ("isto é #decisão!", "#decisão", "tag"),
    ],
)
def test_kinds(text, name, kind):
    """Codes, paths, links, addresses, handles and tags are entities of their kind, without the punctuation around."""
    assert names(text)[name] == kind


@pytest.mark.parametrize("text", ["18,90", "tel 555-1234", "e/ou", "and/or", "a 3/4 share", "in 2025", "it's", "..."])
def test_no_entities(text):
    """Plain numbers, prices, dates and slashes between words are no entities."""
    assert names(text) == {}


def test_key_of_an_entity():
    """Two spellings are one entity whatever their case, accents, composition and blanks."""
    assert key("São  Paulo") == key("SAO PAULO") == key("Sa\u0303o\u00a0Paulo") == "sao paulo"


def test_known_terms_are_found_anywhere():
    """A known term is found in any case, by an alias, and in place of what stood under the same spelling."""
    known = {
        "stripe": Entity(name="Stripe", kind="company"),
        "pagbank": Entity(name="PagSeguro", kind="company"),
        "pag bank": Entity(name="PagSeguro", kind="company"),
    }
    assert find("we pay with stripe", known) == {"stripe": Entity(name="Stripe", kind="company")}
    assert find("o PagBank caiu", known) == {"pagseguro": Entity(name="PagSeguro", kind="company")}
    assert find("o pag bank caiu", known) == {"pagseguro": Entity(name="PagSeguro", kind="company")}
    assert find("pin-striped, stripes", known) == {}


MIXED = ["ontem a Ana saiu", "comi uma banana", "moro em Rio", "vinho de Rioja", "uso C++ e nunca C", "I like Go"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Ana asked about Rio and Go", {"ontem a Ana saiu", "moro em Rio", "I like Go"}),
        ("ANA", {"ontem a Ana saiu"}),
        ("rioja", {"vinho de Rioja"}),
        ("rio", {"moro em Rio"}),
        ("c++", {"uso C++ e nunca C"}),
        ("anabela", set()),
        ("ri", set()),
    ],
)
def test_whole_words_only(words, query, expected):
    """A name in the query means the memories that mention it as a whole word, in any case."""
    words.add_many([NewMemory(text=text) for text in MIXED])
    hits = words.search(query, k=20, signals=["entity"])
    assert {hit.memory.text for hit in hits} == expected


@pytest.mark.parametrize("query", ["sao paulo", "SÃO PAULO", "São Paulo", "o que houve em são paulo ontem?"])
def test_case_and_accents_are_folded(words, query):
    """A name is found in the query however its case and accents are written."""
    words.add("fomos a São Paulo")
    words.add("ficamos em casa")
    assert raw(words, query, signals=["entity"]) == {"fomos a São Paulo": 1.0}


def test_common_word_is_no_name(words):
    """A word that is a name in one memory and a plain word in most is not taken for the name."""
    words.add("falei com Mar")
    words.add_many([NewMemory(text=f"o mar {n} estava calmo") for n in range(5)])
    assert raw(words, "mar", signals=["entity"]) == {}
    assert "falei com Mar" in raw(words, "falei com Mar", signals=["entity"])


@pytest.mark.parametrize(
    ("mentions", "memories", "expected"),
    [
        (1, 1, 1.0),
        (0, 10, 1.0),
        (1, 10, 1.0),
        (10, 10, 0.0),
        (11, 10, 0.0),
        (2, 2, 0.0),
        (10, 100, 0.25),
        (10, 1_000, 4 / 9),
        (3, 81, 0.5625),
    ],
)
def test_rarity(mentions, memories, expected):
    """Rarity is the square of ln(N/n) / ln N: 1 for one memory, 0 for all of them, never below."""
    assert rarity(mentions, memories) == pytest.approx(expected, abs=1e-12)


def test_entity_score_by_hand(words):
    """The raw entity score is the sum of the rarities of what is held of the query's entities, over their number."""
    both, one = "a Ana foi a Ribeirão Preto", "a Ana ficou em casa"
    words.add_many([NewMemory(text=text) for text in (both, one, *(f"nota comum {n}" for n in range(8)))])
    ana = (math.log(10 / 2) / math.log(10)) ** 2
    found = raw(words, "Ana e Ribeirão Preto", signals=["entity"])
    assert found == {both: pytest.approx((ana + 1) / 2), one: pytest.approx(ana / 2)}


def test_most_entities_first_then_newest(words):
    """Where the depth is less than what is found, the signal offers the largest shares, and the newest of equals."""
    texts = ["vi Ana e o Beto", "vi o Beto", "chamei o Beto", "nada", "nada mais"]
    words.add_many([NewMemory(text=text, entities=["Ana"] if text == texts[0] else []) for text in texts])
    with words._database.read() as conn:
        asked = entities.of_query(conn, "Ana, Beto")
        found = entities.search(conn, asked, None, 2)
        everything = entities.search(conn, asked, None, 50)
    assert [one.name for one in asked] == ["Ana", "Beto"]
    assert found.ids == (1, 3)
    assert everything.ids == (1, 3, 2)
    assert found.scores == everything.scores[:2]


def test_entity_of_every_memory_says_nothing(words):
    """An entity that every memory mentions finds nothing and boosts nothing."""
    words.add_many([NewMemory(text=f"a Ana disse {n}") for n in range(5)])
    assert raw(words, "Ana", signals=["entity"]) == {}
    assert {hit.boost for hit in words.search("Ana", k=9)} == {0.0}


def test_boost_is_scaled_by_rarity(words):
    """The boost is the weight's boost times the rarity of the rarest entity that the memory shares with the query."""
    words.add_many([NewMemory(text=text) for text in ("a Ana ligou", "a Ana saiu", "o Beto saiu", "nada")])
    boosts = {hit.memory.text: hit.boost for hit in words.search("Ana ou Beto saiu", k=9, weights={"keyword": 1.0})}
    ana = (math.log(4 / 2) / math.log(4)) ** 2
    assert boosts == {
        "a Ana ligou": pytest.approx(0.3 * ana),
        "a Ana saiu": pytest.approx(0.3 * ana),
        "o Beto saiu": pytest.approx(0.3),
    }


@pytest.mark.parametrize(
    ("options", "boost"),
    [
        ({}, 0.3),
        ({"signals": ["entity"]}, 0.3),
        ({"signals": ["keyword"]}, 0.0),
        ({"weights": {"boost": 0.7}}, 0.7),
        ({"weights": {"boost": 0}}, 0.0),
    ],
)
def test_boost_only_with_the_entity_signal(words, options, boost):
    """A shared entity boosts a memory only when the entity signal takes part, by what the weights say."""
    words.add("a Ana saiu")
    words.add("nada de novo")
    (hit,) = words.search("Ana", **options)
    assert hit.boost == boost
    assert hit.entities == (("Ana",) if options.get("signals") != ["keyword"] else ())


def test_author_is_an_entity(words):
    """The author of a memory is an entity of it, found by name, and follows a change of author."""
    memory = words.add("o pagamento atrasou", author="Ana Souza")
    words.add("o pagamento atrasou outra vez", author="Beto")
    assert memory.entities == (Entity(name="Ana Souza", kind="person"),)
    assert list(raw(words, "o que disse ana souza?", signals=["entity"])) == ["o pagamento atrasou"]
    assert mentioned(words.update(memory.id, author="Carla")) == ["Carla"]
    assert raw(words, "Ana Souza", signals=["entity"]) == {}
    assert mentioned(words.update(memory.id, author=None)) == []


def test_given_entities_are_kept(words):
    """Entities that the caller gives stay when the text changes, and go only when the caller takes them away."""
    memory = words.add("falei com Maria", entities=["Projeto X", "zé"])
    assert mentioned(memory) == ["Maria", "Projeto X", "zé"]
    assert mentioned(words.update(memory.id, text="falei com Beto")) == ["Beto", "Projeto X", "zé"]
    assert mentioned(words.update(memory.id, entities=["Ana"])) == ["Ana", "Beto"]
    assert mentioned(words.update(memory.id, entities=[])) == ["Beto"]


def test_given_entity_that_is_also_found(words):
    """A given entity that the text mentions too is one entity, and outlives the mention."""
    memory = words.add("falei com Maria", entities=["MARIA"])
    assert mentioned(memory) == ["MARIA"]
    assert mentioned(words.update(memory.id, text="falei com ela")) == ["MARIA"]
    (left,) = mentioned(words.update(memory.id, text="falei com Maria", entities=[]))
    assert key(left) == "maria"
    assert mentioned(words.update(memory.id, text="falei com ela")) == []


def test_merging_adds_entities(words):
    """Adding the same text again adds its entities to those that are there."""
    words.add("falei com Maria", entities=["Projeto X"])
    memory = words.add("falei com Maria", entities=["Projeto Y"])
    assert memory.outcome == "merged"
    assert mentioned(memory) == ["Maria", "Projeto X", "Projeto Y"]


def test_forgotten_with_the_last_mention(words):
    """An entity is forgotten when no memory mentions it any more, and counted while some do."""
    first, second = words.add("falei com Maria e Beto"), words.add("vi Maria e Beto")
    words.add("comi com Maria e Rita")
    assert {entity.name: entity.mentions for entity in words.entities()} == {"Maria e Beto": 2, "Maria e Rita": 1}
    words.delete(first.id)
    assert words.stats().entities == 2
    words.update(second.id, text="nada")
    assert [entity.name for entity in words.entities()] == ["Maria e Rita"]
    words.delete([2, 3])
    assert words.entities() == []
    assert words.stats().entities == 0


def test_most_mentioned_first(words):
    """Entities are listed by how many memories mention them, then by name, up to the limit."""
    words.add_many([NewMemory(text=text) for text in ("vi Ana", "vi Beto", "chamei Beto", "vi Zeca", "um", "dois")])
    assert [(entity.name, entity.mentions) for entity in words.entities()] == [("Beto", 2), ("Ana", 1), ("Zeca", 1)]
    assert [entity.name for entity in words.entities(limit=1)] == ["Beto"]


def test_adding_a_term_reaches_stored_memories(words):
    """A known term and its aliases are found in the memories that were there before, and under the term's name."""
    first = words.add("we pay with stripe every month")
    second = words.add("the pag bank is the reserve")
    third = words.add("it is striped")
    term = words.terms.add("Stripe", kind="company", aliases=["stp"])
    assert (term.name, term.kind, term.aliases) == ("Stripe", "company", ("stp",))
    words.terms.add("PagSeguro", aliases=["pag bank"])
    assert words.get(first.id).entities == (Entity(name="Stripe", kind="company"),)
    assert words.get(second.id).entities == (Entity(name="PagSeguro", kind="term"),)
    assert words.get(third.id).entities == ()
    assert raw(words, "what about pagseguro", signals=["entity"]) == {"the pag bank is the reserve": 1.0}
    assert raw(words, "pag bank or STP", signals=["entity"]).keys() == {
        "the pag bank is the reserve",
        "we pay with stripe every month",
    }


def test_term_names_what_was_found_before(words):
    """A known term gives its own name and kind to what the memories mentioned under the same spelling."""
    memory = words.add("we pay with Pagbank")
    words.terms.add("PagBank", kind="company")
    assert words.get(memory.id).entities == (Entity(name="PagBank", kind="company"),)


def test_term_changes_its_kind(words):
    """Adding to a known term keeps its aliases and gives the new kind to the memories that mention it."""
    memory = words.add("we pay with stripe")
    words.terms.add("Stripe", kind="company", aliases=["stp"])
    term = words.terms.add("Stripe", kind="service", aliases=["stripe inc"])
    assert (term.kind, set(term.aliases)) == ("service", {"stp", "stripe inc"})
    assert words.get(memory.id).entities == (Entity(name="Stripe", kind="service"),)


def test_term_in_another_case_is_the_same_term(words):
    """A term that is added again in another case is one term, with the aliases it had."""
    words.terms.add("Stripe", aliases=["stp"])
    words.terms.add("STRIPE", kind="company")
    (term,) = words.terms.list()
    assert (key(term.name), term.kind, term.aliases) == ("stripe", "company", ("stp",))


def test_removing_a_term_reaches_stored_memories(words):
    """A removed term leaves the memories that were linked by it, which keep what they mention by themselves."""
    plain = words.add("we pay with stripe")
    capital = words.add("o antigo PagBank caiu")
    words.terms.add("Stripe")
    words.terms.add("PagSeguro", aliases=["PagBank"])
    assert mentioned(words.get(capital.id)) == ["PagSeguro"]
    words.terms.remove("stripe")
    words.terms.remove("PagSeguro")
    assert mentioned(words.get(plain.id)) == []
    assert mentioned(words.get(capital.id)) == ["PagBank"]
    assert words.terms.list() == []
    with pytest.raises(NotFoundError, match="'Stripe' is not known"):
        words.terms.remove("Stripe")


def test_terms_are_listed_by_name(words):
    """Known terms are listed by name, each with its kind and its other spellings."""
    words.terms.add("Zeta", aliases=["z"])
    words.terms.add("Alfa", kind="project", aliases=["b", "a"])
    assert [(term.name, term.kind, term.aliases) for term in words.terms.list()] == [
        ("Alfa", "project", ("a", "b")),
        ("Zeta", "term", ("z",)),
    ]


def test_known_terms_take_effect_on_new_memories(words):
    """A memory that comes after the term is linked to it, and the term stays known when the file is opened again."""
    words.terms.add("Stripe", kind="company", aliases=["pin de pagamento"])
    assert words.add("o pin de pagamento mudou").entities == (Entity(name="Stripe", kind="company"),)
    with MemoryStore(words.stats().path, embedder="none") as again:
        assert mentioned(again.add("stripe caiu")) == ["Stripe"]


@pytest.mark.parametrize("spelling", ["c++", "ERR-4018", "@bia", "read_csv", "银行", "São Tomé", "R$"])
def test_any_spelling_can_be_known(words, spelling):
    """A term may be a code, a handle, a symbol or a word of any script, and reaches the memories that hold it."""
    memory = words.add(f"falamos de {spelling} ontem")
    words.terms.add("Coisa", aliases=[spelling])
    assert "Coisa" in mentioned(words.get(memory.id))


@pytest.mark.parametrize(("name", "aliases"), [("", []), ("  ", []), ("ok", [""]), ("a\x00b", []), ("ok", "text")])
def test_bad_terms_are_refused(words, name, aliases):
    """A term without a name, or with an alias that can't be stored, is refused and nothing is kept of it."""
    with pytest.raises(InvalidInputError):
        words.terms.add(name, aliases=aliases)
    assert words.terms.list() == []
