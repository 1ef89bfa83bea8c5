"""The cross-encoders worth naming, with what must be known to find each on disk and to be allowed to use it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A cross-encoder that fastembed runs, by the name that it has there.

    `repository` is where its files are on the Hugging Face hub, `data_files` the weights that an ONNX file keeps
    beside itself, `megabytes` what those take, `licence` that of the weights as their authors give it.
    """

    name: str
    languages: str
    licence: str
    megabytes: int
    repository: str
    model_file: str = "onnx/model.onnx"
    data_files: tuple[str, ...] = ()
    commercial: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files without which it does not open."""
        return (self.model_file, *self.data_files, "tokenizer.json", "tokenizer_config.json")


# In the order of preference for Portuguese, Spanish and English: who names none gets the first that is on disk and
# may be used for everything, and is told to pull the first where there is none.
KNOWN = (
    Description(
        name="BAAI/bge-reranker-v2-m3-int8",
        languages="100 languages",
        licence="Apache-2.0",
        megabytes=571,
        repository="onnx-community/bge-reranker-v2-m3-ONNX",
        model_file="onnx/model_int8.onnx",
    ),
    Description(
        name="BAAI/bge-reranker-v2-m3",
        languages="100 languages",
        licence="Apache-2.0",
        megabytes=2270,
        repository="onnx-community/bge-reranker-v2-m3-ONNX",
        data_files=("onnx/model.onnx_data",),
    ),
    # fastembed does not know this one; memstore registers it there.
    Description(
        name="Alibaba-NLP/gte-multilingual-reranker-base",
        languages="70 languages",
        licence="Apache-2.0",
        megabytes=341,
        repository="onnx-community/gte-multilingual-reranker-base",
        model_file="onnx/model_quantized.onnx",
    ),
    Description(
        name="jinaai/jina-reranker-v2-base-multilingual",
        languages="100 languages",
        licence="CC BY-NC 4.0",
        commercial=False,
        megabytes=1110,
        repository="jinaai/jina-reranker-v2-base-multilingual",
    ),
    Description(
        name="BAAI/bge-reranker-base",
        languages="Chinese, English",
        licence="MIT",
        megabytes=1110,
        repository="BAAI/bge-reranker-base",
    ),
    Description(
        name="jinaai/jina-reranker-v1-turbo-en",
        languages="English",
        licence="Apache-2.0",
        megabytes=150,
        repository="jinaai/jina-reranker-v1-turbo-en",
    ),
    Description(
        name="jinaai/jina-reranker-v1-tiny-en",
        languages="English",
        licence="Apache-2.0",
        megabytes=130,
        repository="jinaai/jina-reranker-v1-tiny-en",
    ),
    Description(
        name="Xenova/ms-marco-MiniLM-L-12-v2",
        languages="English",
        licence="Apache-2.0",
        megabytes=134,
        repository="Xenova/ms-marco-MiniLM-L-12-v2",
    ),
    Description(
        name="Xenova/ms-marco-MiniLM-L-6-v2",
        languages="English",
        licence="Apache-2.0",
        megabytes=91,
        repository="Xenova/ms-marco-MiniLM-L-6-v2",
    ),
)

SUGGESTED = KNOWN[0]


def described(name: str) -> Description | None:
    """Return the cross-encoder of that name, whole or its last part, in any case; None is one that is unknown."""
    wanted = name.lower()
    return next((one for one in KNOWN if wanted in (one.name.lower(), one.name.rpartition("/")[2].lower())), None)
