"""`memstore demo`: the main job on real text, offline."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memstore.records import NewMemory
from memstore.render import hits
from memstore.store import MemoryStore, Progress

NOTES = (
    NewMemory(
        text="O erro ERR-4018 aparece quando o cartão do cliente está vencido; peça outro cartão.",
        author="Ana",
        tags=["pagamentos"],
    ),
    NewMemory(
        text="ERR-4019 is a wrong security code; the customer may try three times.", author="Tom", tags=["payments"]
    ),
    NewMemory(
        text="O estorno cai na fatura do cliente em até sete dias úteis depois do pedido.",
        author="Ana",
        tags=["pagamentos"],
    ),
    NewMemory(
        text="Decidimos com Maria da Silva usar Stripe; o PagBank fica de reserva.",
        author="Bruno",
        created_at="2025-03-12T10:00-03:00",
        tags=["decisão"],
    ),
    NewMemory(
        text="The TLS certificate of the staging server runs out on 14 March; Tom renews it.",
        author="Tom",
        created_at="2025-02-20T09:30+00:00",
    ),
    NewMemory(
        text="La reunión semanal con el equipo de Córdoba pasa de los lunes a los miércoles a las diez.",
        author="Lucía",
        created_at="2025-04-02T16:00+02:00",
    ),
    NewMemory(
        text="El pedido 8831 llegó roto; Lucía mandó otro por Transportadora Rapidão Tupã.",
        author="Lucía",
        tags=["envíos"],
    ),
    NewMemory(text="A senha do wifi da visita muda toda sexta; está no quadro da cozinha.", author="Bruno"),
    NewMemory(text="Nunca rode rm -rf na pasta de produção; use scripts/limpar.sh.", author="Bruno"),
    NewMemory(text="Our office closes at six; after that the door opens with the blue badge only.", author="Tom"),
    NewMemory(text="O plano básico custa R$ 18,90 por mês e o plano equipe R$ 59,90.", author="Ana", tags=["preços"]),
    NewMemory(text="Use read_csv_safe() instead of read_csv: it refuses files that are cut off.", author="Tom"),
)

QUESTIONS = (
    ("a code", "o que significa o erro ERR-4018?"),
    ("a price", "qual plano custa 18,90?"),
    ("a paraphrase: no word in common", "em quanto tempo devolvem o dinheiro da compra?"),
    ("a name", "what did we decide with Maria da Silva?"),
    ("asked in Spanish, written in English", "¿cuándo caduca el certificado del servidor de pruebas?"),
    ("asked in English, written in Spanish", "when does the team in Córdoba meet?"),
    ("Python's language reference", "how do I leave a loop early?"),
)


def run(
    path: Path | None,
    *,
    embedder: str = "auto",
    all_topics: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Store the notes and Python's own language reference, ask each question, and say what was found and why."""
    if path is not None:
        _run(path, embedder, all_topics, progress, say)
        return
    with tempfile.TemporaryDirectory(prefix="memstore-") as folder:
        _run(Path(folder) / "demo.db", embedder, all_topics, progress, say)


def topics(*, all_topics: bool) -> list[NewMemory]:
    """Return the topics of the language reference that every CPython carries: the shorter half, or all."""
    from pydoc_data.topics import topics as texts

    chosen = sorted(texts.items(), key=lambda item: (len(item[1]), item[0]))
    if not all_topics:
        chosen = chosen[: len(chosen) // 2]
    return [NewMemory(text=text, key=name, namespace="python", language="en") for name, text in chosen if text.strip()]


def _run(path: Path, embedder: str, all_topics: bool, progress: Progress | None, say: Callable[[str], None]) -> None:
    start = time.perf_counter()
    with MemoryStore(path, embedder=embedder) as store:
        store.add_many([*NOTES, *topics(all_topics=all_topics)], progress=progress)
        held = store.stats()
        say(
            f"{held.memories} memories in {held.passages} passages, {held.entities} names,"
            f" {held.size_bytes / 1e6:.1f} MB in one file, {time.perf_counter() - start:.1f} s"
        )
        say(f"embedder: {held.embedder}")
        start = time.perf_counter()
        for kind, question in QUESTIONS:
            found = store.search(question, k=2)
            say("")
            say(f"? {question}   ({kind})")
            for line in hits(found, explain=True):
                say(line)
            for signal, reason in found.skipped.items():
                say(f"   {signal} took no part: {reason}")
        say("")
        say(f"{len(QUESTIONS)} questions in {1000 * (time.perf_counter() - start):.0f} ms")
