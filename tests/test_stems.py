"""Stems: what Snowball gives, what is brought together beside it, what stays apart, and what a search makes of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import NewMemory, analyze
from memstore.analysis import LANGUAGES, STEM_MARK, fold, weight
from memstore.analysis.stems import snowball, stem, stems

SENTENCE = "Os erros ERR-4018 nas entregas atrasadas, em São Paulo?"
LETTERS = st.text(st.sampled_from("abcdeilmnorstuzçãõáéíóúâêôñ'"), min_size=1, max_size=12)
SYLLABLES = st.lists(
    st.sampled_from(["pra", "me", "ti", "co", "nu", "ban", "les", "mor", "fi", "xe", "dul"]), min_size=1, max_size=4
)
LAW = settings(deadline=None)


def folded(language: str, *forms: str) -> list[str]:
    """Return the distinct stems of some words as they meet in the index."""
    return list(dict.fromkeys(fold(stem(language, form)) for form in forms))


def test_steps_of_a_sentence():
    """A sentence gives its words without case and accents, those with a subject, their Snowball stems and its codes."""
    steps = analyze(SENTENCE, language="pt")
    assert steps.text == SENTENCE
    assert steps.languages == ("pt",)
    assert " ".join(steps.words) == "os erros err 4018 nas entregas atrasadas em sao paulo"
    assert " ".join(steps.stop_words) == "os nas em sao"
    assert " ".join(steps.kept) == "erros err 4018 entregas atrasadas paulo"
    assert " ".join(steps.snowball["pt"]) == "erros err 4018 entreg atras paul"
    assert " ".join(steps.stems["pt"]) == "erro err 4018 entreg atras paul"
    assert steps.codes == ("err-4018",)


def test_terms_of_a_sentence():
    """A memory is indexed under each word as spelt and as stemmed, a code whole and in parts, a number as it is."""
    steps = analyze(SENTENCE, language="pt")
    expected = "os erros ≈erro err-4018 err ≈err 4018 nas entregas ≈entreg atrasadas ≈atras em são sao paulo ≈paul"
    assert list(steps.terms) == expected.split()
    assert [one.word for one in steps.query] == ["erros", "ERR-4018", "ERR", "4018", "entregas", "atrasadas", "Paulo"]


@pytest.mark.parametrize(("given", "language"), [(None, "pt"), ("es", "es"), ("en", "en")])
def test_steps_follow_the_language(given, language):
    """The steps are those of the language that is given, else of the one that is detected."""
    steps = analyze(SENTENCE, language=given)
    assert steps.languages == (language,)
    assert set(steps.snowball) == set(steps.stems) == {language}


def test_steps_of_nothing():
    """A text without any word has no steps to show."""
    steps = analyze("?! …")
    assert steps.words == steps.kept == steps.codes == steps.terms == steps.query == ()


@pytest.mark.parametrize(("one", "other"), [("entrega", "entregas"), ("pagar", "pagando"), ("pedido", "pedir")])
def test_snowball_brings_together(one, other):
    """Snowball gives regular forms of a Portuguese word one stem."""
    assert snowball("pt", one) == snowball("pt", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("erro", "erros"),
        ("cupom", "cupons"),
        ("item", "itens"),
        ("cartão", "cartões"),
        ("devolução", "devolver"),
    ],
)
def test_snowball_leaves_apart(one, other):
    """Snowball gives these forms of a Portuguese word two stems, which is what the repairs are for."""
    assert snowball("pt", one) != snowball("pt", other)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("informação", "inform"),
        (fold("informação"), "informaca"),
        ("reunião", "reuniã"),
        ("reuniões", "reuniõ"),
    ],
)
def test_snowball_reads_accents(spelling, expected):
    """Snowball reads the accents, so that a word folded first gets another stem than the word as spelt."""
    assert snowball("pt", spelling) == expected


TOGETHER = {
    "pt": """
        informação informações informacao informacoes
        reunião reuniões reuniao reunioes
        decisão decisões decisao decisoes
        ação ações acao acoes
        função funções funcao funcoes
        lição lições licao licoes
        cartão cartões cartao cartoes
        padrão padrões padrao padroes
        limão limões limao limoes
        leão leões leao leoes
        pão pães pao paes
        cão cães cao caes
        alemão alemães alemao alemaes
        capitão capitães capitao capitaes
        mão mãos mao maos
        irmão irmãos irmao irmaos
        cidadão cidadãos cidadao cidadaos
        órgão órgãos orgao orgaos
        bênção bênçãos
        cupom cupons
        item itens
        homem homens
        jardim jardins
        bom bons
        som sons
        álbum álbuns album albuns
        mensagem mensagens
        animal animais
        canal canais
        papel papéis papeis
        hotel hotéis hoteis
        anel anéis aneis
        fiel fiéis fieis
        lençol lençóis lencol lencois
        fácil fáceis facil faceis
        difícil difíceis dificil dificeis
        móvel móveis movel moveis
        possível possíveis possivel possiveis
        variável variáveis variavel variaveis
        nível níveis nivel niveis
        útil úteis util
        fóssil fósseis
        barril barris
        perfil perfis
        erro erros
        ano anos
        dia dias
        pé pés
        avó avós avo avos
        café cafés cafe cafes
        irmã irmãs irma irmas
        rei reis
        lei leis
        museu museus
        grau graus
        degrau degraus
        mês meses
        país países pais paises
        luz luzes
        juiz juízes juizes
        mulher mulheres
        ônibus onibus
        vírus virus
        história histórias historia historias
        memória memórias memoria memorias
        relatório relatórios relatorio relatorios
        usuário usuários usuario usuarios
        língua línguas lingua linguas
        índice índices indice indices
        criança crianças crianca criancas
        preço preços preco precos
        bug bugs
        link links
        log logs
        app apps
        chip chips
        post posts
        site sites
        backup backups
        web webs
    """,
    "es": """
        año años
        niño niños
        luz luces
        voz voces
        pez peces
        lápiz lápices lapiz lapices
        juez jueces
        raíz raíces raiz raices
        feliz felices
        actriz actrices
        joven jóvenes jovenes
        imagen imágenes imagenes
        examen exámenes examenes
        orden órdenes ordenes
        origen orígenes origenes
        volumen volúmenes volumenes
        régimen regímenes
        respiración respiraciones respiracion
        información informaciones informacion
        decisión decisiones decision
        reunión reuniones reunion
        camión camiones camion
        canción canciones cancion
        versión versiones version
        corazón corazones corazon
        botón botones boton
        avión aviones avion
        jardín jardines jardin
        error errores
        papel papeles
        animal animales
        árbol árboles arbol arboles
        fácil fáciles facil faciles
        móvil móviles movil moviles
        rey reyes
        ley leyes
        mes meses
        país países pais paises
        café cafés cafe cafes
        bebé bebés bebe bebes
        español españoles
        tía tías tia tias
        día días dia dias
        código códigos codigo
        número números numero numeros
        película películas pelicula
        flor flores
        tren trenes
        plan planes
        pie pies
        interés intereses
        bug bugs
        link links
        chip chips
        club clubs
        film films
    """,
}


@pytest.mark.parametrize(
    ("language", "forms"),
    [(language, forms.strip()) for language, table in TOGETHER.items() for forms in table.strip().splitlines()],
)
def test_forms_that_meet(language, forms):
    """The singular, the plural and the spelling of each without accents have one stem."""
    assert len(folded(language, *forms.split())) == 1


APART = {
    "pt": """
        carta cartão
        ano anno
        mãe mas
        mães mais
        deus deu
        seis sei
        caos cão
        após apoia
        mês me
        país pai
        pães pai
        pão pau
        cão cal
        são só
        placa praça
        placa plaza
        cor coração
        leão lei
        grão grau
        avião via
        avó avião
        caro carro
        posto pasta
        mal mau
        sol só
        gás gá
        fé feio
        pés peso
        reis real
        leis leal
        fiéis fio
        móveis mover
        anéis ano
        lençol lenço
        cartel carta
        barril barro
        perfil perfume
        útil uso
        gentil gente
        civil cívico
        ordem ordenar
        nuvens novo
        sons sono
        comum como
        amém amar
        animal animar
        casal casa
        metal meta
        portal porta
        capital capitão
        igual igreja
        ideal ideia
        ação aço
        poção poço
        ração raça
        moção moço
        noção nosso
        canção cansar
        estação estar
        ônus on
        bônus bom
        status stat
        corpus corpo
        campus campo
        jesus jesu
        atlas atla
        xadrez xadre
    """,
    "es": """
        dios dio
        seis sei
        mes me
        más ma
        tres tren
        gas ga
        bus bu
        crisis cris
        análisis anal
        virus viru
        además ade
        jamás jama
        atlas atla
        interés inter
        carta cartón
        placa plaza
        caza caca
        taza taca
        pozo poco
        mozo moco
        marzo marco
        trozo troco
        pieza pieca
        paz pacto
        imágenes imaginar
        jóvenes joya
        orígenes original
        exámenes examinar
        pero perro
        caro carro
        pelo pelota
        papel papa
        error erro
        mil milla
        cal calle
        pie piel
        reyes real
        leyes leal
    """,
}


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [(language, *pair.split()) for language, table in APART.items() for pair in table.strip().splitlines()],
)
def test_words_that_stay_apart(language, one, other):
    """Two words that only look like forms of one word keep two stems."""
    assert len(folded(language, one, other)) == 2


@pytest.mark.parametrize("word", ["running", "runs", "news", "bus", "virus", "boxes", "naïve", "erros", "luz", "joven"])
def test_english_is_left_to_snowball(word):
    """An English stem is Snowball's own."""
    assert stem("en", word) == snowball("en", word)


@LAW
@given(LETTERS, st.sampled_from(LANGUAGES))
def test_any_word_has_one_stem(word, language):
    """Any word has a stem in each language, the same one each time it is asked for."""
    assert isinstance(stem(language, word), str)
    assert stem(language, word) == stem(language, word)
    assert stems(word, (language, "en")) == (stem(language, word), stem("en", word))


@LAW
@given(
    SYLLABLES.map("".join),
    st.sampled_from(["ção ções cao coes", "são sões sao soes", "gem gens", "nal nais", "vel veis", "tório tórios"]),
)
def test_a_regular_plural_meets_its_singular(beginning, endings):
    """Whatever word a regular Portuguese plural is of, it has the stem of its singular, also without the accents."""
    assert len(folded("pt", *(beginning + ending for ending in endings.split()))) == 1


@pytest.mark.parametrize("code", ["4018", "18,90", "err4018", "ts1002", "v2", "k8s", "b07", "2024-05-08", "🎉", "%"])
def test_codes_and_numbers_have_no_stem(code):
    """A code, a number and a mark are indexed as spelt alone."""
    assert not [term for term in analyze(code).terms if term.startswith(STEM_MARK)]


@pytest.mark.parametrize(
    ("term", "counts"),
    [
        ("printer", 1),
        ("informação", 1),
        ("≈print", 1),
        ("≈inform", 1),
        ("≈reuniã", 0.2),
        ("≈añ", 0.2),
        ("4018", 2),
        ("18,90", 2),
        ("10.0.0.7", 2),
        ("err-4018", 2),
        ("src/db.py", 2),
        ("c++", 2),
        ("ts1002", 3),
        ("b07", 3),
        ("银行", 1),
        ("🎉", 2),
        ("docker-compose", 0.5),
        ("d'água", 0.5),
    ],
)
def test_what_a_term_counts(term, counts):
    """A spelling and a stem count 1 each, a number and a compound 2, a code 3; a hyphen and an accent add little."""
    assert weight(term) == counts


FOUND = {
    "pt": [
        ("as informações da reunião", "informacao"),
        ("as informações da reunião", "reunioes"),
        ("a informação sobre o cliente", "informacoes"),
        ("perdi os cartões do banco", "cartao"),
        ("perdi o cartão do banco", "cartoes"),
        ("não foi uma boa decisão", "decisoes"),
        ("os pães são da padaria", "pao"),
        ("o pão é da padaria", "paes"),
        ("lavei as mãos", "mao"),
        ("meu irmão não veio", "irmaos"),
        ("os níveis de acesso do sistema", "nivel"),
        ("a variável não foi lida", "variaveis"),
        ("assinei os papéis do contrato", "papel"),
        ("um móvel para a sala", "moveis"),
        ("os países da Europa", "pais"),
        ("minha avó não enxerga bem", "avos"),
        ("o usuário não entrou", "usuarios"),
        ("os relatórios do mês", "relatorio"),
        ("ouvi as histórias da vó", "historia"),
        ("o preço não mudou", "precos"),
        ("o chapéu é meu", "chapeus"),
        ("o ônibus não passou", "onibus"),
        ("as manhãs de maio", "manha"),
        ("o bebê não dormiu", "bebes"),
    ],
    "es": [
        ("la respiración del paciente", "respiracion"),
        ("las respiraciones del paciente", "respiracion"),
        ("la respiración del paciente", "respiraciones"),
        ("los camiones de la empresa", "camion"),
        ("el camión de la empresa", "camiones"),
        ("la decisión del equipo", "decision"),
        ("los jóvenes de la ciudad", "joven"),
        ("los jóvenes de la ciudad", "jovenes"),
        ("las imágenes del viaje", "imagenes"),
        ("la imagen del viaje", "imagenes"),
        ("los años que viví allí", "ano"),
        ("el año que viví allí", "anos"),
        ("los niños de la escuela", "nino"),
        ("compré dos lápices", "lapiz"),
        ("el lápiz es de la niña", "lapices"),
        ("las compañías de la ciudad", "compania"),
        ("los países de América", "pais"),
        ("el corazón del paciente", "corazones"),
        ("los árboles del parque", "arbol"),
        ("es difícil de explicar", "dificiles"),
        ("la película de ayer", "peliculas"),
        ("los teléfonos de la oficina", "telefono"),
        ("mañana no estaré en casa", "manana"),
        ("los pingüinos del zoo", "pinguino"),
    ],
}


@pytest.mark.parametrize(
    ("note", "query"),
    [pair for pairs in FOUND.values() for pair in pairs],
)
def test_spelling_without_accents_finds_the_other_forms(words, note, query):
    """A word typed without accents finds the note that has it with them, in the singular or the plural."""
    words.add("o gato dorme no sofá, el perro en la casa")
    held = words.add(note)
    assert [hit.memory.id for hit in words.search(query, signals=["keyword"])] == [held.id]


SAID = {
    "pt": ("ontem eu não vi {} com você", "a casa é azul e não é minha"),
    "es": ("ayer yo no vi {} con usted", "la casa es azul y no es mía"),
}


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("es", "año años ano"),
        ("es", "niño niños nino"),
        ("es", "sueño sueños sueno"),
        ("es", "pingüino pingüinos pinguino"),
        ("pt", "avó avós avo"),
        ("pt", "maçã maçãs maca"),
        ("pt", "país países pais"),
        ("pt", "médico médicos medico"),
        ("pt", "história histórias historia"),
        ("pt", "fácil fáceis facil"),
        ("pt", "difíceis difícil dificeis"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_exact_then_stem_then_folded(words, language, forms, turned):
    """The spelling of the query ranks above another form with its accents, and that above the one without them."""
    said, other = SAID[language]
    notes = [said.format(form) for form in forms.split()]
    words.add_many([NewMemory(text=text) for text in (*(notes[::-1] if turned else notes), other)])
    assert [hit.memory.text for hit in words.search(forms.split()[0], k=9, signals=["keyword"])] == notes


EXACT = {
    "pt": """
        reunião reuniões reuniao
        informação informações informacao
        informacao informação informações
        cartões cartão cartoes
        coração corações coracao
        decisões decisão decisoes
        padrões padrão padroes
        avô avó avo
        forró forrós forro
        bebê bebês bebe
        erros erro
        itens item
    """,
    "es": """
        camión camiones camion
        imagen imágenes imagenes
        respiración respiraciones respiracion
        decisión decisiones decision
        lápiz lápices lapiz
        papá papás papa
        jóvenes joven jovenes
        luces luz
    """,
}


@pytest.mark.parametrize(
    ("language", "forms"),
    [(language, forms.strip()) for language, table in EXACT.items() for forms in table.strip().splitlines()],
)
@pytest.mark.parametrize("turned", [False, True])
def test_the_exact_spelling_is_first(words, language, forms, turned):
    """Each spelling of a word finds all the others and ranks its own note above them, in whatever order they came."""
    said, other = SAID[language]
    notes = [said.format(form) for form in forms.split()]
    words.add_many([NewMemory(text=text) for text in (*(notes[::-1] if turned else notes), other)])
    for form in forms.split():
        hits = [hit.memory.text for hit in words.search(form, k=9, signals=["keyword"])]
        assert hits[0] == said.format(form)
        assert sorted(hits) == sorted(notes)


@pytest.mark.parametrize(
    ("language", "query", "meant", "other"),
    [
        ("pt", "reuniao", "reunião", "reuniões"),
        ("pt", "reunioes", "reuniões", "reunião"),
        ("pt", "informacao", "informação", "informações"),
        ("pt", "cartoes", "cartões", "cartão"),
        ("pt", "historia", "história", "histórias"),
        ("pt", "avos", "avós", "avó"),
        ("es", "ano", "año", "años"),
        ("es", "anos", "años", "año"),
        ("es", "respiracion", "respiración", "respiraciones"),
        ("es", "imagenes", "imágenes", "imagen"),
        ("es", "lapices", "lápices", "lápiz"),
        ("es", "pinguinos", "pingüinos", "pingüino"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_word_typed_without_accents_is_spelt_as_the_file_spells_it(words, language, query, meant, other, turned):
    """Where no memory has the spelling without accents, it stands for the one with them and ranks that note first."""
    said, another = SAID[language]
    notes = [said.format(meant), said.format(other)]
    words.add_many([NewMemory(text=text) for text in (*(notes[::-1] if turned else notes), another)])
    hits = words.search(query, k=9, signals=["keyword"])
    assert [hit.memory.text for hit in hits] == notes
    assert hits[0].signals["keyword"].raw > hits[1].signals["keyword"].raw


@pytest.mark.parametrize(
    ("note", "query"),
    [
        ("a placa do carro", "plaza"),
        ("o coração do paciente", "cor"),
        ("recebi a carta da escola", "cartão"),
        ("ele disse sei lá", "Deus"),
        ("el perro no come", "pero bien"),
        ("la taza de té", "taca"),
        ("el año pasado", "anual"),
        ("un avión de papel", "avestruz"),
        ("TS1002 is an error", "TS1003"),
        ("the code is 4018", "401"),
        ("the code is 4018", "40180"),
    ],
)
def test_what_only_looks_alike_is_not_found(words, note, query):
    """A word that only looks like one of a note does not find it."""
    words.add(note)
    assert len(words.search(query, signals=["keyword"])) == 0
