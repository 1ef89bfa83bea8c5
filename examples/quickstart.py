"""Store a few memories in three languages, ask, and see why each answer came."""

import tempfile
from pathlib import Path

from memstore import MemoryStore

with tempfile.TemporaryDirectory() as folder, MemoryStore(Path(folder) / "agent.db") as store:
    store.add("Decidimos usar Stripe; o PagBank fica de reserva.", author="Ana", tags=["decisão"])
    store.add("ERR-4018 means the card has expired.", author="Tom", tags=["payments"])
    store.add("El cliente pidió su dinero de vuelta; Lucía lo devuelve el lunes.", author="Lucía")
    store.add("Nunca rode rm -rf na pasta de produção.", key="rules#rm", metadata={"severity": 3})

    for question in ("o que significa o erro ERR-4018?", "quem cuida do estorno?", "what did Ana decide?"):
        found = store.search(question, k=2)
        print(f"\n? {question}   (signals: {', '.join(found.used)})")
        for hit in found:
            print(f"{hit.score:.2f}  {hit.memory.text}")
            print(hit.explain())
        for signal, reason in found.skipped.items():
            print(f"{signal} took no part: {reason}")

    strict = store.search("produção", where={"severity": {"$gte": 2}})
    print("\nfiltered:", [hit.memory.key for hit in strict])
