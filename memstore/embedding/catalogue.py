"""What there is to know of the models worth naming, before any of them is on disk."""

from dataclasses import dataclass

_SENTENCE = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

_CODES = {"English": "en", "Portuguese": "pt", "Spanish": "es"}

# How fastembed can pool a model that it does not know: the names here, and there.
POOLINGS = {"cls": "CLS", "mean": "MEAN", "last token": "LAST_TOKEN", "the model's own": "DISABLED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A text-embedding model that fastembed runs, by the name that it has there.

    `window` is the most tokens that it reads of one text there, prefix included, which is less for some than their
    authors say. `repository` is where its files are on the Hugging Face hub, `data_files` the weights that an ONNX file
    keeps beside itself, `pooling` how one vector comes from those of the tokens.
    """

    name: str
    dimensions: int
    window: int = 512
    languages: str = "English"
    licence: str
    megabytes: int
    repository: str
    model_file: str = "onnx/model.onnx"
    data_files: tuple[str, ...] = ()
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: str = "mean"
    commercial: bool = True

    @property
    def spoken(self) -> tuple[str, ...]:
        """The languages that it is for, as codes; none when it is for more than a few."""
        names = self.languages.split(", ")
        return tuple(_CODES[name] for name in names) if set(names) <= _CODES.keys() else ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files without which it does not open."""
        tokenizer = ("tokenizer.json",) if self.static else ("tokenizer.json", "tokenizer_config.json")
        return (self.model_file, *self.data_files, *tokenizer)

    @property
    def static(self) -> bool:
        """Whether it is a table of token vectors, with no network to run."""
        return self.model_file.endswith(".safetensors")

    @property
    def foldable(self) -> bool:
        """Whether its files say enough to open it without its name."""
        return self.static or self.pooling in POOLINGS


# Models that embed queries alone, or documents alone, for a partner that embeds the other side.
ONE_SIDED = ("Qdrant/constella-zero", "Qdrant/constella-nano", "Qdrant/stella-en-400M-v5-doc-onnx")

# In the order of preference for Portuguese, Spanish and English: a new file takes the first that is on disk.
KNOWN = (
    # fastembed does not know this one; memstore registers it there.
    Description(
        name="intfloat/multilingual-e5-small",
        dimensions=384,
        languages="100 languages",
        licence="MIT",
        megabytes=487,
        repository="intfloat/multilingual-e5-small",
        query_prefix="query: ",
        passage_prefix="passage: ",
    ),
    Description(
        name="intfloat/multilingual-e5-large",
        dimensions=1024,
        languages="100 languages",
        licence="MIT",
        megabytes=2240,
        repository="Qdrant/multilingual-e5-large-onnx",
        model_file="model.onnx",
        data_files=("model.onnx_data",),
        query_prefix="query: ",
        passage_prefix="passage: ",
    ),
    Description(
        name="google/embeddinggemma-300m",
        dimensions=768,
        window=2048,
        languages="100 languages",
        licence="Gemma",
        megabytes=1240,
        repository="onnx-community/embeddinggemma-300m-ONNX",
        data_files=("onnx/model.onnx_data",),
        query_prefix="task: search result | query: ",
        passage_prefix="title: none | text: ",
        pooling="the model's own",
    ),
    Description(
        name="Qwen/Qwen3-Embedding-0.6B",
        dimensions=1024,
        window=32768,
        languages="100 languages",
        licence="Apache-2.0",
        megabytes=2380,
        repository="Qdrant/Qwen3-Embedding-0.6B-onnx",
        data_files=("onnx/model.onnx_data",),
        query_prefix=_INSTRUCT,
        pooling="last token",
    ),
    Description(
        name="Qwen/Qwen3-Embedding-0.6B-Q",
        dimensions=1024,
        window=32768,
        languages="100 languages",
        licence="Apache-2.0",
        megabytes=1120,
        repository="Qdrant/Qwen3-Embedding-0.6B-onnx",
        model_file="onnx/model_quantized.onnx",
        query_prefix=_INSTRUCT,
        pooling="last token",
    ),
    Description(
        name="sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
        dimensions=768,
        languages="50 languages",
        licence="Apache-2.0",
        megabytes=1000,
        repository="Xenova/paraphrase-multilingual-mpnet-base-v2",
    ),
    Description(
        name="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        dimensions=384,
        window=128,
        languages="50 languages",
        licence="Apache-2.0",
        megabytes=220,
        repository="Qdrant/paraphrase-multilingual-MiniLM-L12-v2-onnx-Q",
        model_file="model_optimized.onnx",
    ),
    Description(
        name="minishlab/potion-multilingual-128M",
        dimensions=256,
        languages="101 languages",
        licence="MIT",
        megabytes=512,
        repository="minishlab/potion-multilingual-128M",
        model_file="model.safetensors",
        pooling="mean of static vectors",
    ),
    Description(
        name="jinaai/jina-embeddings-v3",
        dimensions=1024,
        window=8192,
        languages="89 languages",
        licence="CC BY-NC 4.0",
        commercial=False,
        megabytes=2290,
        repository="jinaai/jina-embeddings-v3",
        data_files=("onnx/model.onnx_data",),
        # Its authors' own code puts these before the texts, besides choosing the adapter, which fastembed does.
        query_prefix="Represent the query for retrieving evidence documents: ",
        passage_prefix="Represent the document for retrieval: ",
        pooling="mean, by task",
    ),
    Description(
        name="jinaai/jina-embeddings-v2-base-es",
        dimensions=768,
        window=8192,
        languages="Spanish, English",
        licence="Apache-2.0",
        megabytes=640,
        repository="jinaai/jina-embeddings-v2-base-es",
    ),
    Description(
        name="snowflake/snowflake-arctic-embed-l",
        dimensions=1024,
        licence="Apache-2.0",
        megabytes=1020,
        repository="Snowflake/snowflake-arctic-embed-l",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="mixedbread-ai/mxbai-embed-large-v1",
        dimensions=1024,
        licence="Apache-2.0",
        megabytes=640,
        repository="mixedbread-ai/mxbai-embed-large-v1",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="BAAI/bge-large-en-v1.5",
        dimensions=1024,
        licence="MIT",
        megabytes=1200,
        repository="Qdrant/bge-large-en-v1.5-onnx",
        model_file="model.onnx",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="snowflake/snowflake-arctic-embed-m",
        dimensions=768,
        licence="Apache-2.0",
        megabytes=430,
        repository="Snowflake/snowflake-arctic-embed-m",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="snowflake/snowflake-arctic-embed-m-long",
        dimensions=768,
        window=2048,
        licence="Apache-2.0",
        megabytes=540,
        repository="Snowflake/snowflake-arctic-embed-m-long",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="BAAI/bge-base-en-v1.5",
        dimensions=768,
        licence="MIT",
        megabytes=210,
        repository="Qdrant/bge-base-en-v1.5-onnx-Q",
        model_file="model_optimized.onnx",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="nomic-ai/nomic-embed-text-v1.5",
        dimensions=768,
        window=8192,
        licence="Apache-2.0",
        megabytes=520,
        repository="nomic-ai/nomic-embed-text-v1.5",
        query_prefix="search_query: ",
        passage_prefix="search_document: ",
    ),
    Description(
        name="nomic-ai/nomic-embed-text-v1.5-Q",
        dimensions=768,
        window=8192,
        licence="Apache-2.0",
        megabytes=130,
        repository="nomic-ai/nomic-embed-text-v1.5",
        model_file="onnx/model_quantized.onnx",
        query_prefix="search_query: ",
        passage_prefix="search_document: ",
    ),
    Description(
        name="nomic-ai/nomic-embed-text-v1",
        dimensions=768,
        window=8192,
        licence="Apache-2.0",
        megabytes=520,
        repository="nomic-ai/nomic-embed-text-v1",
        query_prefix="search_query: ",
        passage_prefix="search_document: ",
    ),
    Description(
        name="ibm-granite/granite-embedding-small-english-r2",
        dimensions=384,
        window=8192,
        licence="Apache-2.0",
        megabytes=180,
        repository="onnx-community/granite-embedding-small-english-r2-ONNX",
        data_files=("onnx/model.onnx_data",),
        pooling="the model's own",
    ),
    Description(
        name="snowflake/snowflake-arctic-embed-s",
        dimensions=384,
        licence="Apache-2.0",
        megabytes=130,
        repository="Snowflake/snowflake-arctic-embed-s",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="BAAI/bge-small-en-v1.5",
        dimensions=384,
        licence="MIT",
        megabytes=67,
        repository="Qdrant/bge-small-en-v1.5-onnx-Q",
        model_file="model_optimized.onnx",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="BAAI/bge-base-en",
        dimensions=768,
        licence="MIT",
        megabytes=420,
        repository="Qdrant/fast-bge-base-en",
        model_file="model_optimized.onnx",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="BAAI/bge-small-en",
        dimensions=384,
        licence="MIT",
        megabytes=130,
        repository="Qdrant/bge-small-en",
        model_file="model_optimized.onnx",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="snowflake/snowflake-arctic-embed-xs",
        dimensions=384,
        licence="Apache-2.0",
        megabytes=90,
        repository="Snowflake/snowflake-arctic-embed-xs",
        query_prefix=_SENTENCE,
        pooling="cls",
    ),
    Description(
        name="thenlper/gte-base",
        dimensions=768,
        licence="MIT",
        megabytes=440,
        repository="thenlper/gte-base",
    ),
    # The files that fastembed takes cut at 128 tokens, the authors' own at 512 (qdrant/fastembed#689).
    Description(
        name="thenlper/gte-large",
        dimensions=1024,
        window=128,
        licence="MIT",
        megabytes=1200,
        repository="Qdrant/gte-large-onnx",
        model_file="model.onnx",
    ),
    Description(
        name="jinaai/jina-embeddings-v2-base-en",
        dimensions=768,
        window=8192,
        licence="Apache-2.0",
        megabytes=520,
        repository="Xenova/jina-embeddings-v2-base-en",
    ),
    Description(
        name="jinaai/jina-embeddings-v2-small-en",
        dimensions=512,
        window=8192,
        licence="Apache-2.0",
        megabytes=120,
        repository="Xenova/jina-embeddings-v2-small-en",
    ),
    # Cut at 128 tokens as gte-large is; the authors' own files at 256.
    Description(
        name="sentence-transformers/all-MiniLM-L6-v2",
        dimensions=384,
        window=128,
        licence="Apache-2.0",
        megabytes=90,
        repository="Qdrant/all-MiniLM-L6-v2-onnx",
        model_file="model.onnx",
    ),
    Description(
        name="minishlab/potion-retrieval-32M",
        dimensions=512,
        licence="MIT",
        megabytes=129,
        repository="minishlab/potion-retrieval-32M",
        model_file="model.safetensors",
        pooling="mean of static vectors",
    ),
    Description(
        name="minishlab/potion-base-8M",
        dimensions=256,
        licence="MIT",
        megabytes=30,
        repository="minishlab/potion-base-8M",
        model_file="model.safetensors",
        pooling="mean of static vectors",
    ),
)

_BY_NAME = {one.name.lower(): one for one in KNOWN}
_BY_LAST_PART = {
    name.rpartition("/")[2].lower(): one
    for name, one in [(one.repository, one) for one in KNOWN] + [(one.name, one) for one in KNOWN]
}


# As Ollama names them, without a version.
_ALIASES = {
    "all-minilm": "all-minilm-l6-v2",
    "mxbai-embed-large": "mxbai-embed-large-v1",
    "nomic-embed-text": "nomic-embed-text-v1.5",
    "paraphrase-multilingual": "paraphrase-multilingual-mpnet-base-v2",
    "snowflake-arctic-embed": "snowflake-arctic-embed-l",
    "embeddinggemma": "embeddinggemma-300m",
}


def described(name: str) -> Description | None:
    """Return what is known of a model by its name, or by the last part of its name, repository or folder.

    A tag behind a colon is passed over. None is a model that is unknown.
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    return _BY_NAME.get(name.lower()) or _BY_LAST_PART.get(_ALIASES.get(last, last))


def prefixes(name: str) -> tuple[str, str]:
    """Return what goes before a query and before a passage of the model of that name, nothing for an unknown one."""
    found = described(name)
    return ("", "") if found is None else (found.query_prefix, found.passage_prefix)
