"""Who and what a memory mentions: what is recognised, what the user adds to it, and what that counts for."""

import math

import pytest

from memstore import InvalidInputError, Memory, MemoryStore, NewMemory, NotFoundError, entities
from memstore.entities import find, key, rarity
from memstore.exchange import read_terms
from memstore.records import Entity, Term


def names(text: str) -> dict[str, str]:
    """Return the entities of a text that are in no doubt, with their kinds."""
    return {entity.name: entity.kind for entity in find(text).sure.values()}


def doubtful(text: str) -> list[str]:
    return [entity.name for entity in find(text).doubtful.values()]


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
        ("fui ao Rio de Janeiro", ["Rio de Janeiro"]),
        ("o José da Silva e Ana Souza", ["José da Silva", "Ana Souza"]),
        ("ouvi Ludwig van Beethoven", ["Ludwig van Beethoven"]),
        ("li Simone de Beauvoir, depois Charles de Gaulle", ["Simone de Beauvoir", "Charles de Gaulle"]),
        ("vi Maria dos Anjos", ["Maria dos Anjos"]),
        ("saw Osama bin Ali and Otto von Bismarck", ["Osama bin Ali", "Otto von Bismarck"]),
        ("είδα τον Γιώργο Παπαδόπουλο", ["Γιώργο Παπαδόπουλο"]),
        ("տեսա Արմեն Սարգսյանին", ["Արմեն Սարգսյանին"]),
        ("gặp Nguyễn Văn An", ["Nguyễn Văn An"]),
        ("vi o Ｊｏãｏ", ["Ｊｏãｏ"]),
        ("fui a Sa\u0303o Paulo", ["São Paulo"]),
        ("a Ana, o Beto; com Carla", ["Ana", "Beto", "Carla"]),
        ("saw Ana and Beto", ["Ana", "Beto"]),
        ("o iPhone da McDonald", ["McDonald"]),
        ("os alunos de Luis XIV", ["Luis XIV"]),
        ("eu acho que não", []),
        ("I think so and I am", []),
        ("o plano b e a opção C", []),
        ("on Monday, in May, em Maio", []),
        ("paguei em R$ e US$", []),
    ],
)
def test_names(text, expected):
    """A name is a run of capitalised words in any alphabet, with the particles inside it."""
    found = names(text)
    assert found.items() >= dict.fromkeys(expected, "name").items()
    assert expected or found == {}


@pytest.mark.parametrize(
    ("text", "sure", "in_doubt"),
    [
        ("Falei com ela. Depois saí.", [], ["Falei"]),
        ("A Ana ligou.", ["Ana"], []),
        ("Quando Maria chegou", ["Maria"], []),
        ("The Beatles", ["Beatles"], []),
        ("Ana ligou. Depois a Ana saiu.", ["Ana"], []),
        ("Ana ligou. Depois saiu.", [], ["Ana"]),
        ("¿Cómo está?", [], []),
        ("Django rocks", [], ["Django"]),
        ("we use Django", ["Django"], []),
        ("Ana: oi", [], ["Ana"]),
        ("disse isso: Ana", [], ["Ana"]),
        ("é isso? Ana", [], ["Ana"]),
        ("é isso… Ana", [], ["Ana"]),
        ("“Ana não”, disse ela", [], ["Ana"]),
        ("¿Ana?", [], ["Ana"]),
        # An emoji ends a sentence, and begins none itself.
        ("🎉 Ana chegou", [], ["Ana"]),
        ("chegou 🎉 Ana viu", [], ["Ana"]),
        ("chegou 👨‍👩‍👧 Ana viu", [], ["Ana"]),
        # A line of its own, after an empty one or behind the mark of a list.
        ("chegou\n\nAna viu", [], ["Ana"]),
        ("chegou.\nAna viu", [], ["Ana"]),
        ("- Ana viu", [], ["Ana"]),
        ("* Ana viu", [], ["Ana"]),
        ("• Ana viu", [], ["Ana"]),
        ("1. Ana viu", [], ["Ana"]),
        ("# Ana", [], ["Ana"]),
        ("> Ana viu", [], ["Ana"]),
        ("\tAna viu", [], ["Ana"]),
        # What stands inside a sentence.
        ("vi, Ana", ["Ana"], []),
        ("vi com\u00a0Ana", ["Ana"], []),
        ("a conta (da empresa) Ana", ["Ana"], []),
        # Other letters than the first tell a name by themselves.
        ("IBM ligou", ["IBM"], []),
        ("McDonald abriu", ["McDonald"], []),
        # The first of several may only be the sentence's.
        ("Chamamos Maria Silva", ["Chamamos Maria Silva", "Maria Silva"], []),
        ("Quero Paris", ["Quero Paris"], ["Paris"]),
        ("Ana Souza ligou", ["Ana Souza"], ["Souza"]),
    ],
)
def test_sentence_starts(text, sure, in_doubt):
    """A single capitalised word that begins a sentence is in doubt, unless the text has it inside another."""
    assert (list(names(text)), doubtful(text)) == (sure, in_doubt)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hey John, how are you?", ["John"]),
        ("Hey, John!", ["John"]),
        ("Hi Ana Souza", ["Ana Souza"]),
        ("Hello there", []),
        ("Dear John", ["John"]),
        ("Thanks, Maria.", ["Maria"]),
        ("Thank you Beto", ["Beto"]),
        ("Wow, John!", ["John"]),
        ("Good morning Ana", ["Ana"]),
        ("Sorry Ana", ["Ana"]),
        ("Happy to see you", []),
        ("Today Ana left", ["Ana"]),
        ("Olá João", ["João"]),
        ("Ola João", ["João"]),
        ("Oi, Ana", ["Ana"]),
        ("Obrigada Ana!", ["Ana"]),
        ("Parabéns, Beto", ["Beto"]),
        ("Bom dia, Ana", ["Ana"]),
        ("Boa tarde", []),
        ("Cara Ana", ["Ana"]),
        ("Hoje Ana saiu", ["Ana"]),
        ("Ontem a Ana saiu", ["Ana"]),
        ("Hola, Álvaro", ["Álvaro"]),
        ("Gracias Lucía", ["Lucía"]),
        ("Querido Álvaro", ["Álvaro"]),
        ("Buenos días, Lucía", ["Lucía"]),
        ("Mañana Lucía viene", ["Lucía"]),
        ("Monday Ana came", ["Ana"]),
    ],
)
def test_what_is_said_before_a_name_is_no_part_of_it(text, expected):
    """A greeting, a word of grammar or a day before a name at the beginning of a sentence is no name."""
    assert (list(names(text)), doubtful(text)) == (expected, [])


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
        ("custa R$ 18,90 por mês", "R$ 18,90", "money"),
        ("custa R$18,90.", "R$ 18,90", "money"),
        ("custa r$ 1.234,56!", "R$ 1.234,56", "money"),
        ("paid US$ 5 (in May)", "US$ 5", "money"),
        ("paid $5.", "$ 5", "money"),
        ("paid £1,200", "£ 1,200", "money"),
        ("5 € only", "€ 5", "money"),
        ("€5 only", "€ 5", "money"),
        ("₹ 500", "₹ 500", "money"),
        ("uns R$ 3 mil", "R$ 3 mil", "money"),
        ("$ 2 million", "$ 2 million", "money"),
        ("$10k a year", "$ 10k", "money"),
        ("foram 18,90 reais", "18,90 reais", "money"),
        ("it is 50 USD", "50 USD", "money"),
        ("it is 5 dollars", "5 dollars", "money"),
        ("em 8 de maio de 2023", "2023-05-08", "date"),
        ("el 8 de mayo del 2023", "2023-05-08", "date"),
        ("on May 8, 2023", "2023-05-08", "date"),
        ("em 3/4/2025", "2025-04-03", "date"),
        ("em 3.4.2025.", "2025-04-03", "date"),
        ("em 2025-04-03", "2025-04-03", "date"),
        ("em maio de 2023", "2023-05", "date"),
        ("on 14 March", "--03-14", "date"),
    ],
)
def test_kinds(text, name, kind):
    """Codes, paths, links, addresses, handles, tags, money and dates are entities of their kind, and nothing more."""
    assert names(text) == {name: kind}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://ex.org/2023-05-08/Ana", {"https://ex.org/2023-05-08/Ana": "url"}),
        ("see backup-2023-05-08.tar", {"backup-2023-05-08.tar": "path"}),
        ("in src/v1.2.2023/Main.py", {"src/v1.2.2023/Main.py": "path"}),
        ("write to ana.5.5.2023@ex.org", {"ana.5.5.2023@ex.org": "address"}),
        (
            "paguei R$ 5 em 8 de Maio de 2023 à Ana",
            {"R$ 5": "money", "2023-05-08": "date", "Ana": "name"},
        ),
        ("May 8, 2023 or 8/5/2023", {"2023-05-08": "date"}),
        ("version 10.0.0.1 and 1.2.2023.4", {}),
    ],
)
def test_what_is_inside_a_longer_thing_is_nothing_by_itself(text, expected):
    """A date in a link, a name in a path, a month in a date are no entities of their own."""
    assert names(text) == expected


@pytest.mark.parametrize(
    "query", ["May 8, 2023", "08/05/2023", "(2023-05-08)", "8 de mayo del 2023", "que houve em 8 de maio de 2023?"]
)
def test_a_date_is_one_entity_however_it_is_written(words, query):
    """A query with a date finds the memories that mention the day in any form or language."""
    memory = words.add("pago em 8 de maio de 2023")
    words.add("pago em 9 de maio de 2023")
    assert memory.entities == (Entity(name="2023-05-08", kind="date"),)
    assert raw(words, query, signals=["entity"]) == {memory.text: 1.0}


@pytest.mark.parametrize(("text", "query"), [("R$ 18,90", "R$18,90?"), ("r$18,90", "R$ 18,90"), ("€5", "it was 5 €")])
def test_money_is_one_entity_however_it_is_spaced(words, text, query):
    """An amount of money is one entity with or without a blank, in any case, and with its sign on either side."""
    words.add(f"custa {text} ao mês")
    words.add("custa R$ 18,99 ao ano")
    assert raw(words, query, signals=["entity"]) == {f"custa {text} ao mês": 1.0}


@pytest.mark.parametrize("text", ["18,90", "tel 555-1234", "e/ou", "and/or", "a 3/4 share", "in 2025", "it's", "..."])
def test_no_entities(text):
    """Plain numbers, a year alone and slashes between words are no entities."""
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
    assert find("we pay with stripe", known).sure == {"stripe": Entity(name="Stripe", kind="company")}
    assert find("o PagBank caiu", known).sure == {"pagseguro": Entity(name="PagSeguro", kind="company")}
    assert find("o pag bank caiu", known).sure == {"pagseguro": Entity(name="PagSeguro", kind="company")}
    assert find("pin-striped, stripes", known).sure == {}


B85 = ["Ana", "banana", "Rio", "Rioja", "R", "C", "C++", "Go", "Django"]


@pytest.mark.parametrize("taught", [True, False], ids=["known terms", "given entities"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Ana asked about Rio and Go", {"Ana", "Rio", "Go"}),
        ("ana", {"Ana"}),
        ("ANÁ?", {"Ana"}),
        ("banana", {"banana"}),
        ("ban", set()),
        ("Rioja", {"Rioja"}),
        ("RIO", {"Rio"}),
        ("río", {"Rio"}),
        ("written in r", {"R"}),
        ("R or Go", {"R", "Go"}),
        ("gopher, ergo", set()),
        ("django", {"Django"}),
        ("DJANGO, R or Go", {"Django", "R", "Go"}),
        ("Djangos", set()),
    ],
)
def test_short_names_are_whole_words_and_distinct(words, taught, query, expected):
    """Ana is no piece of banana, Go none of Django and R none of Rio: a name is found whole, in any case and accent."""
    if taught:
        words.terms.add_many([Term(name=name) for name in B85])
    words.add_many([NewMemory(text=f"note on {name}.", entities=[] if taught else [name]) for name in B85])
    hits = words.search(query, k=20, signals=["entity"])
    assert {name for hit in hits for name in hit.entities} == expected
    assert {hit.memory.text for hit in hits} == {f"note on {name}." for name in expected}


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
    """The boost is the weight's boost times the rarity of the rarest identifier that memory and query share."""
    words.add_many(
        [NewMemory(text=text) for text in ("o ERR-4018 ligou", "o ERR-4018 saiu", "o ERR-4019 saiu", "nada")]
    )
    found = words.search("ERR-4018 ou ERR-4019 saiu", k=9, weights={"keyword": 1.0})
    two_of_four = (math.log(4 / 2) / math.log(4)) ** 2
    assert {hit.memory.text: hit.boost for hit in found} == {
        "o ERR-4018 ligou": pytest.approx(0.3 * two_of_four),
        "o ERR-4018 saiu": pytest.approx(0.3 * two_of_four),
        "o ERR-4019 saiu": pytest.approx(0.3),
    }


@pytest.mark.parametrize(
    ("text", "query", "boosted"),
    [
        ("o ERR-4018 saiu", "ERR-4018", True),
        ("veja src/db.py", "src/db.py", True),
        ("escreva a ana@example.org", "ana@example.org", True),
        ("fale com @ana", "@ana", True),
        ("custa R$ 18,90", "R$ 18,90", True),
        ("a Ana saiu", "Ana", False),
        ("Maria da Silva saiu", "Maria da Silva", False),
    ],
)
def test_names_get_no_boost(words, text, query, boosted):
    """What identifies is boosted; a name that is known by its capitals alone is not, until the user teaches it."""
    words.add(text)
    words.add("nada de novo")
    assert words.search(query)[0].boost == (0.3 if boosted else 0.0)
    if not boosted:
        words.terms.add(query, kind="customer")
        assert words.search(query)[0].boost == 0.3


def test_an_author_gets_no_boost(words):
    """A memory is not boosted for its author's name, and is for an entity that the caller gave."""
    words.add("nada de novo", author="Ana")
    words.add("nada de velho", entities=["Beto"])
    words.add("outra nota")
    assert words.search("Ana")[0].boost == 0.0
    assert words.search("Beto")[0].boost == 0.3


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
    words.add("o ERR-4018 saiu")
    words.add("nada de novo")
    (hit,) = words.search("ERR-4018", **options)
    assert hit.boost == boost
    assert hit.entities == (("ERR-4018",) if options.get("signals") != ["keyword"] else ())


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
    assert {entity.name: entity.mentions for entity in words.entities()} == {"Maria": 3, "Beto": 2, "Rita": 1}
    words.delete(first.id)
    assert words.stats().entities == 3
    words.update(second.id, text="nada")
    assert [entity.name for entity in words.entities()] == ["Maria", "Rita"]
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


OPENER, INSIDE = "Ana saiu cedo", "ontem vi a Ana"


def test_an_opener_alone_is_no_entity(words):
    """A word that only opens sentences is in no list, of a memory or of the store, and nothing mentions it."""
    assert words.add(OPENER).entities == ()
    assert words.add("Ana voltou").entities == ()
    assert words.entities() == []
    assert words.stats().entities == 0
    assert raw(words, "vi Ana", signals=["entity"]) == {}
    with pytest.raises(NotFoundError, match="no memory mentions 'Ana'"):
        words.mentions("Ana")


@pytest.mark.parametrize(
    "sure",
    [
        NewMemory(text=INSIDE),
        NewMemory(text="oi", author="ana"),
        NewMemory(text="oi", entities=["ANA"]),
        NewMemory(text="Quando Ana volta?"),
        NewMemory(text="Ana! A Ana!"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_opener_counts_where_another_memory_is_sure(words, sure, first):
    """What opens a sentence counts once a memory says, is by or was given that name, in whichever order they came."""
    for new in [sure, NewMemory(text=OPENER)] if first else [NewMemory(text=OPENER), sure]:
        words.add_many([new])
    words.add_many([NewMemory(text="nada"), NewMemory(text="nada mais")])
    assert {memory.text for memory in words.mentions("Ana")} == {OPENER, sure.text}
    assert all("ana" in map(key, mentioned(memory)) for memory in words.mentions("Ana"))
    (entity,) = words.entities()
    assert (key(entity.name), entity.mentions) == ("ana", 2)
    assert raw(words, "Ana", signals=["entity"]).keys() == {OPENER, sure.text}


@pytest.mark.parametrize(
    "goes",
    [
        lambda store, id: store.delete(id),
        lambda store, id: store.update(id, text="ontem vi a outra"),
        lambda store, id: [store.update(id, expires_at="2000-01-01T00:00:00Z"), store.add("mais uma")],
    ],
    ids=["deleted", "changed", "expired"],
)
def test_an_opener_counts_no_more_when_no_other_memory_is_sure(words, goes):
    """When the only memory that was sure of a name goes or changes, the sentences that begin with it count no more."""
    opener, inside = words.add(OPENER), words.add(INSIDE)
    words.add("nada")
    assert mentioned(words.get(opener.id)) == ["Ana"]
    goes(words, inside.id)
    assert mentioned(words.get(opener.id)) == []
    assert words.entities() == []
    assert raw(words, "Ana", signals=["entity"]) == {}
    words.add("de novo a Ana")
    assert mentioned(words.get(opener.id)) == ["Ana"]


def test_an_opener_that_was_given_is_sure(words):
    """A word that opens a sentence is a name where the caller gave it, until the caller takes it away."""
    memory = words.add(OPENER, entities=["ana"])
    assert mentioned(memory) == ["ana"]
    assert [one.id for one in words.mentions("Ana")] == [memory.id]
    assert mentioned(words.update(memory.id, entities=[])) == []


def test_a_known_term_is_sure_where_it_opens_a_sentence(words):
    """A word that the user knows counts at the beginning of a sentence too, and not when it is known no more."""
    memory = words.add("Django rocks")
    words.terms.add("Django", kind="framework")
    assert words.get(memory.id).entities == (Entity(name="Django", kind="framework"),)
    words.terms.remove("django")
    assert words.get(memory.id).entities == ()


def test_mentions_are_the_newest_first(words):
    """The memories that mention an entity come the newest first, by any spelling of it, up to the limit."""
    words.terms.add("Stripe", aliases=["stp"])
    days = {
        "we use stripe": "2023-05-08T10:00Z",
        "STP is down": "2023-05-10T10:00Z",
        "Stripe is back": "2023-05-09T10:00Z",
    }
    for text, day in days.items():
        words.add(text, created_at=day)
    words.add("gone: stripe", expires_at="2000-01-01T00:00:00Z")
    words.add("nothing of it")
    expected = ["STP is down", "Stripe is back", "we use stripe"]
    for name in ("Stripe", "stripe", "Stp", " STRIPE "):
        assert [memory.text for memory in words.mentions(name)] == expected
    assert [memory.text for memory in words.mentions("stp", limit=2)] == expected[:2]


@pytest.mark.parametrize("name", ["Nobody", "Stri", "down", "b@x.org"])
def test_no_memory_mentions_it(words, name):
    """A name that no memory mentions and the user has not taught is said to be unknown, whole, as it was given."""
    words.add("Stripe is down, says ana@x.org")
    words.add("we use Stripe")
    with pytest.raises(NotFoundError, match=f"no memory mentions '{name}', and it is no known term"):
        words.mentions(name)


def test_a_known_term_that_no_memory_mentions(words):
    """A known term that no memory mentions yet is no error: there are none."""
    words.terms.add("Stripe", aliases=["stp"])
    assert words.mentions("stripe") == words.mentions("STP") == []


@pytest.mark.parametrize(("name", "limit"), [("", 5), ("  ", 5), (None, 5), (7, 5), ("Ana", 0), ("Ana", True)])
def test_bad_questions_for_mentions(words, name, limit):
    """A name that is none, or a limit that is no number from 1 on, is refused."""
    with pytest.raises(InvalidInputError):
        words.mentions(name, limit=limit)


def test_merging_what_memories_mention(words):
    """A merged name is one more spelling: memories that mention it, by text, author or gift, mention the other then."""
    said = words.add("falei com Carla")
    wrote = words.add("tudo certo", author="Carla")
    was_given = words.add("um bilhete", entities=["carla"])
    opened = words.add("Carla saiu")
    other = words.add("vi Carla Souza ontem")
    words.add("nada")
    term = words.terms.merge("CARLA", "Carla Souza")
    assert (term.name, term.aliases) == ("Carla Souza", ("CARLA",))
    every = [said.id, wrote.id, was_given.id, opened.id, other.id]
    assert [mentioned(words.get(one)) for one in every] == [["Carla Souza"]] * 5
    assert words.get(wrote.id).author == "Carla"
    assert [(entity.name, entity.mentions) for entity in words.entities()] == [("Carla Souza", 5)]
    assert sorted(memory.id for memory in words.mentions("carla")) == every
    assert len(raw(words, "o que disse carla?", signals=["entity"])) == 5
    assert mentioned(words.add("mais uma de Carla")) == ["Carla Souza"]


def test_merging_two_known_terms(words):
    """Two known terms that are merged are one, with the name and kind of the second and the spellings of both."""
    memories = [words.add(f"we pay with {name}") for name in ("stripe", "stp", "paypal", "pay pal")]
    words.terms.add("Stripe", kind="company", aliases=["stp"])
    words.terms.add("Paypal", kind="bank", aliases=["pay pal"])
    # Either may be named by any of its spellings.
    term = words.terms.merge("STP", "Pay Pal")
    assert (term.name, term.kind, set(term.aliases)) == ("Paypal", "bank", {"Stripe", "stp", "pay pal"})
    assert words.terms.list() == [term]
    for memory in memories:
        assert words.get(memory.id).entities == (Entity(name="Paypal", kind="bank"),)
    with pytest.raises(NotFoundError):
        words.terms.remove("Stripe")
    words.terms.remove("Paypal")
    assert [mentioned(words.get(memory.id)) for memory in memories] == [[]] * 4


def test_merging_what_is_not_there_yet(words):
    """Names that no memory mentions can be merged; those that come are one."""
    term = words.terms.merge("Nova", "Outra")
    assert (term.name, term.aliases) == ("Outra", ("Nova",))
    assert mentioned(words.add("falei com Nova e a Outra")) == ["Outra"]


@pytest.mark.parametrize(
    ("name", "into"),
    [("Ana", "Ana"), ("Ana", "ANÁ"), ("a na", " a  na "), ("Stripe", "stp"), ("stp", "STRIPE"), ("stp", "s.t.p")],
)
def test_merging_what_is_one_already_is_refused(words, name, into):
    """A name and itself, or two spellings of one term, are one already: nothing changes."""
    words.terms.add("Stripe", aliases=["stp", "s.t.p"])
    before = words.terms.list()
    with pytest.raises(InvalidInputError, match="are one entity already; nothing was merged"):
        words.terms.merge(name, into)
    assert words.terms.list() == before


@pytest.mark.parametrize(("name", "into"), [("", "Ana"), ("Ana", " "), (None, "Ana"), ("Ana", 7), ("a\x00b", "Ana")])
def test_bad_names_to_merge(words, name, into):
    """What is no name is not merged."""
    with pytest.raises(InvalidInputError):
        words.terms.merge(name, into)
    assert words.terms.list() == []


@pytest.mark.parametrize("again", ["Projeto X", "projeto x", "Projeto Y", "PROJETO  Y"])
def test_adding_again_under_a_merged_spelling_changes_nothing(words, again):
    """A memory that is added again with its entity under another spelling of it is unchanged."""
    words.add("um bilhete", entities=["Projeto X"])
    words.terms.merge("Projeto X", "Projeto Y")
    memory = words.add("um bilhete", entities=[again])
    assert (memory.outcome, mentioned(memory)) == ("unchanged", ["Projeto Y"])
    assert words.update(memory.id, entities=[again]).outcome == "unchanged"


def test_a_given_entity_takes_the_name_of_the_term(words):
    """An entity given under another spelling of a known term is the term, before and after the term is known."""
    words.terms.add("Stripe", aliases=["stp"])
    assert mentioned(words.add("one", entities=["STP"])) == ["Stripe"]
    two = words.add("two", entities=["pb"])
    words.terms.add("PagBank", aliases=["PB"])
    assert mentioned(words.get(two.id)) == ["PagBank"]
    assert mentioned(words.update(two.id, entities=["stp", "pb", "Stripe"])) == ["PagBank", "Stripe"]


def test_removing_a_term_keeps_what_was_given(words):
    """What the caller gave stays under the name of the term when the term is known no more."""
    words.terms.add("Stripe", aliases=["stp"])
    memory = words.add("we pay", entities=["stp"])
    words.terms.remove("Stripe")
    assert mentioned(words.get(memory.id)) == ["Stripe"]


def test_an_author_by_another_spelling(words):
    """A memory whose author is another spelling of a known term mentions the term; its author stays as given."""
    words.terms.add("Ana Souza", kind="person", aliases=["aninha"])
    memory = words.add("tudo certo", author="Aninha")
    words.add("nada")
    assert (memory.author, memory.entities) == ("Aninha", (Entity(name="Ana Souza", kind="person"),))
    assert list(raw(words, "ana souza?", signals=["entity"])) == ["tudo certo"]
    words.terms.remove("Ana Souza")
    assert words.get(memory.id).entities == (Entity(name="Aninha", kind="person"),)


def test_the_spelling_of_another_term_is_refused(words):
    """An alias that another term has is refused by name, and nothing of a batch with it is kept."""
    words.terms.add("Stripe", aliases=["stp"])
    with pytest.raises(InvalidInputError, match="'stp' is a spelling of the term 'Stripe' already"):
        words.terms.add_many([Term(name="New"), Term(name="Other", aliases=("STP",))])
    assert [term.name for term in words.terms.list()] == ["Stripe"]


def test_an_export_keeps_the_terms(words, tmp_path):
    """What was taught and merged comes back from an export, and means the same to the memories that come back."""
    words.add("we pay with stripe", entities=["Projeto X"], author="Bia")
    words.add("Bia saiu")
    words.terms.add("Stripe", kind="company", aliases=["stp"])
    words.terms.merge("Projeto X", "Projeto Y")
    words.terms.merge("Bia", "Beatriz")
    words.export(tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        other.import_jsonl(lines)
        assert other.terms.list() == words.terms.list()
        assert [mentioned(memory) for memory in other.list()] == [mentioned(memory) for memory in words.list()]
        assert mentioned(other.add("stp de Bia")) == ["Beatriz", "Stripe"]
        assert other.import_jsonl(lines).added == 0
        assert other.terms.list() == words.terms.list()


def test_an_import_whose_terms_clash_stores_nothing(words, tmp_path):
    """An export whose known term has a spelling of another term here is refused before a memory is stored."""
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        other.terms.add("Other", aliases=["stp"])
        other.add("a note")
        other.export(tmp_path / "out.jsonl")
    words.terms.add("Stripe", aliases=["stp"])
    with pytest.raises(InvalidInputError, match="'stp' is a spelling of the term 'Stripe' already"):
        words.import_jsonl((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines())
    assert words.count() == 0
    assert [term.name for term in words.terms.list()] == ["Stripe"]


ANIMALS = {"puppy": "Rex", "cachorro": "Rex", "kitten": "Mia"}


def animals(text: str) -> list[tuple[str, str]]:
    """A recogniser of the caller's own: it knows an animal by what it is called."""
    return [(name, "animal") for word, name in ANIMALS.items() if word in text.lower()]


def test_a_recogniser_finds_entities_in_memories_and_queries(opened):
    """What the caller's recogniser finds in a memory is its entity, and meets what it finds in a query."""
    store = opened(embedder="none", recogniser=animals)
    memory = store.add("we saw the puppy with Ana")
    store.add("the kitten slept")
    assert memory.entities == (Entity(name="Ana", kind="name"), Entity(name="Rex", kind="animal"))
    assert list(raw(store, "onde está o cachorro?", signals=["entity"])) == [memory.text]
    assert [one.text for one in store.mentions("rex")] == [memory.text]
    assert mentioned(store.update(memory.id, text="we saw the kitten")) == ["Mia"]


def test_a_recogniser_takes_doubt_away(opened):
    """A word that opens a sentence is a name when the recogniser says so, of the kind that it says."""
    store = opened(embedder="none", recogniser=lambda text: [("Ana", "person")] if "Ana" in text else [])
    assert store.add("Ana saiu").entities == (Entity(name="Ana", kind="person"),)
    assert store.add("vi a Ana").entities == (Entity(name="Ana", kind="person"),)


def test_a_known_term_goes_before_a_recogniser(opened):
    """What the user has taught has the name and kind that the user gave, whatever a recogniser says."""
    store = opened(embedder="none", recogniser=lambda _: [("stripe", "animal")])
    memory = store.add("we pay with stripe")
    assert memory.entities == (Entity(name="stripe", kind="animal"),)
    store.terms.add("Stripe", kind="company")
    assert store.get(memory.id).entities == (Entity(name="Stripe", kind="company"),)


def test_a_change_of_terms_keeps_what_the_recogniser_finds(opened):
    """Memories whose entities are found again for a known term keep those of the recogniser."""
    store = opened(embedder="none", recogniser=animals)
    memory = store.add("the puppy sleeps at stripe")
    store.terms.add("Stripe")
    assert mentioned(store.get(memory.id)) == ["Rex", "Stripe"]
    store.terms.remove("Stripe")
    assert mentioned(store.get(memory.id)) == ["Rex"]


def test_what_a_recogniser_found_stays_in_the_file(opened):
    """Entities of a recogniser are in the file: they are found by a store that is opened without one."""
    opened(embedder="none", recogniser=animals).add("we saw the puppy")
    assert list(raw(opened(embedder="none"), "rex", signals=["entity"])) == ["we saw the puppy"]


def _fails(_):
    raise RuntimeError("no model")


def _fails_half_way(_):
    yield "Rex", "animal"
    raise RuntimeError("no model")


@pytest.mark.parametrize(
    ("recogniser", "reason"),
    [
        (_fails, "RuntimeError: no model"),
        (_fails_half_way, "RuntimeError: no model"),
        (lambda _: None, "TypeError"),
        (lambda _: 7, "TypeError"),
        (lambda _: ["Rex"], "ValueError"),
        (lambda _: [("Rex",)], "ValueError"),
        (lambda _: [("Rex", "animal", 0.9)], "ValueError"),
        (lambda: [], "TypeError"),
    ],
)
def test_a_recogniser_that_fails_is_a_warning(opened, recogniser, reason):
    """A recogniser that fails or answers in another form costs only what it would have found: all else is stored."""
    store = opened(embedder="none", recogniser=recogniser)
    with pytest.warns(UserWarning, match=f"the recogniser failed .{reason}"):
        memory = store.add("we saw the puppy with Ana")
    assert (memory.outcome, mentioned(memory)) == ("added", ["Ana"])
    with pytest.warns(UserWarning, match="the recogniser failed"):
        (hit,) = store.search("did Ana see it?")
    assert hit.entities == ("Ana",)


@pytest.mark.parametrize(
    "found", [("", "animal"), ("  ", "animal"), ("Rex", ""), (7, "animal"), ("Rex", None), ("x" * 81, "animal")]
)
def test_what_is_no_name_and_kind_is_left_out(opened, found):
    """What a recogniser gives that is no name of a kind is passed over; names are taken with single blanks."""
    store = opened(embedder="none", recogniser=lambda _: [found, (" Rex\nthe  First ", "animal")])
    with pytest.warns(UserWarning, match="can't be used"):
        memory = store.add("we saw the puppy")
    assert memory.entities == (Entity(name="Rex the First", kind="animal"),)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Stripe", Term(name="Stripe")),
        ("  Stripe\t", Term(name="Stripe")),
        ("Stripe (company)", Term(name="Stripe", kind="company")),
        ("Stripe ( company )", Term(name="Stripe", kind="company")),
        ("Stripe(company)", Term(name="Stripe", kind="company")),
        ("Stripe: stp", Term(name="Stripe", aliases=("stp",))),
        ("Stripe (company): stp, Stripe Inc.", Term(name="Stripe", kind="company", aliases=("stp", "Stripe Inc."))),
        ("Stripe : a , , b,", Term(name="Stripe", aliases=("a", "b"))),
        ("São Paulo (lugar): Sampa, SP", Term(name="São Paulo", kind="lugar", aliases=("Sampa", "SP"))),
        ("C++ (language): cpp", Term(name="C++", kind="language", aliases=("cpp",))),
        ("Rio: Rio de Janeiro (RJ)", Term(name="Rio", aliases=("Rio de Janeiro (RJ)",))),
        ("Jean-Luc d'Or & Cia", Term(name="Jean-Luc d'Or & Cia")),
        ("日本 (国): にほん", Term(name="日本", kind="国", aliases=("にほん",))),
    ],
)
def test_a_line_of_a_list_of_terms(line, expected):
    """A line of a list is a name, its kind in brackets, and behind a colon its other spellings."""
    assert read_terms(line) == [expected]


def test_a_list_of_terms():
    """Empty lines and comments are passed over, whatever ends the lines; what names no kind has the one given."""
    text = "# companies\n\nStripe: stp\r\n   # more\n  \nPagBank (bank)\n"
    assert read_terms(text, kind="company") == [
        Term(name="Stripe", kind="company", aliases=("stp",)),
        Term(name="PagBank", kind="bank"),
    ]
    assert read_terms("") == read_terms("\n# nothing\n") == []


@pytest.mark.parametrize(
    "line", ["(company)", ": stp", "Stripe (a) (b)", "Stripe ()", "Stripe (company) more", "a:b", "(company): stp"]
)
def test_a_bad_line_of_a_list_is_named_by_its_number(line):
    """A line that is not in the form is refused by its number, as it stands in the text, with the form."""
    with pytest.raises(InvalidInputError) as caught:
        read_terms(f"# a list\nStripe\n\n{line}\nPagBank")
    assert str(caught.value) == f"line 4 is {line!r}; write it as Name (kind): alias, alias."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("McDonald's", "fomos ao McDonald's ontem"),
        ("Dr. Silva", "falei com o dr. silva"),
        ("Yahoo!", "the yahoo! mail is slow"),
        ("U.S.A.", "we fly to the U.S.A. soon"),
        ("Smith, John", "a call from Smith, John today"),
        ("Rock 'n' Roll", "more rock 'n' roll please"),
        ("银行卡", "我的银行卡丢了"),
        ("東京都", "昨日東京都へ行った"),
        ("กรุงเทพ", "วันนี้ที่กรุงเทพดี"),
    ],
)
def test_a_known_name_with_marks_or_without_spaces_is_found(words, name, text):
    """A known name is found as texts are read, whatever marks are in it: stored before it, after it, and asked for."""
    before = words.add(text)
    words.terms.add(name)
    after = words.add(text, namespace="other")
    assert {memory.id for memory in words.mentions(name)} == {before.id, after.id}
    words.add("nothing of it")
    assert {hit.memory.id for hit in words.search(text, signals=["entity"], k=9)} == {before.id, after.id}


@pytest.mark.parametrize(("name", "text"), [("C", "note on C++ and C#"), ("R", "R$ 18 and R&D"), ("Go", "google it")])
def test_a_known_letter_is_no_part_of_a_code(words, name, text):
    """A name of one letter or two is not found inside a longer word or a code."""
    words.terms.add(name)
    assert name not in mentioned(words.add(text))
    assert name in mentioned(words.add(f"we write {name} here"))


def test_terms_that_fail_half_way_change_nothing(words):
    """A change of terms that fails while memories are linked anew leaves both terms and links as they were."""
    words.add_many([NewMemory(text=f"we pay with stripe {n}") for n in range(5)])

    def refuse(_, sql, values):
        if sql.startswith("INSERT INTO memory_entities") and values[0] == 4:
            raise RuntimeError("no more")
        return True

    connection = words._database.connection()
    connection.exec_trace = refuse
    with pytest.raises(RuntimeError, match="no more"):
        words.terms.add("Stripe")
    connection.exec_trace = None
    assert words.terms.list() == []
    assert words.entities() == []
    words.terms.add("Stripe")
    assert words.entities()[0].mentions == 5


def test_a_slow_recogniser_holds_up_no_other_writer(opened, path):
    """A recogniser is asked before the transaction, also where a memory only gets another entity."""
    written = []

    def recogniser(_):
        with MemoryStore(path, embedder="none") as other:
            written.append(other.add(f"written meanwhile {len(written)}").id)
        return []

    with MemoryStore(path, embedder="none") as store:
        memory = store.add("base")
    store = opened(embedder="none", recogniser=recogniser)
    assert mentioned(store.update(memory.id, entities=["Zed"])) == ["Zed"]
    assert len(written) == 1
