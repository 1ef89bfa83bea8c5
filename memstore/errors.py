"""What can go wrong, each as one sentence: subject, value, limit, remedy."""

from typing import ClassVar


class MemstoreError(Exception):
    """The base of every error that memstore raises on purpose."""


class InvalidInputError(MemstoreError, ValueError):
    """The caller gave something that can't be stored or asked; nothing was written."""


class NotFoundError(MemstoreError, LookupError):
    """No memory has that id or key."""


class NotAStoreError(MemstoreError):
    """The path can't be, or is not, a memstore file."""


class EncryptionError(MemstoreError):
    """A key does not fit the file, or can't be used by this SQLite driver; the file was not touched."""


class NewerSchemaError(MemstoreError):
    """The file was made by a later memstore; it was not touched."""


class DamagedStoreError(MemstoreError):
    """SQLite says that the file is damaged."""


class ReadOnlyError(MemstoreError):
    """A write to a store that can only be read."""


class BusyError(MemstoreError):
    """Another process kept the file locked for longer than the wait."""


class StorageError(MemstoreError):
    """SQLite or the disk refused (full, input/output error, …); what was stored before is intact."""


class ModelError(MemstoreError):
    """A model can't be found, can't be loaded, or gave no usable answer."""

    subject: ClassVar[str] = "model"


class EmbedderError(ModelError):
    """An embedding model can't be found, can't be loaded, or gave no usable vectors."""

    subject = "embedder"


class RerankerError(ModelError):
    """A reranker can't be found, can't be loaded, or gave no usable scores; the order before it stands."""

    subject = "reranker"


class SignalUnavailableError(MemstoreError):
    """A signal was asked for by name and can't take part."""


class SecretWarning(UserWarning):
    """What was stored has the shape of a key or token; it was not changed."""


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
