"""Downloads from a server on this machine that breaks off, lies or is not there."""

import hashlib
import socket

import pytest

from madod.cli.main import main
from madod.data.colored_mnist import ColoredMnist
from madod.data.download import Source, fetch
from madod.data.mnist import FILES
from madod.errors import InputError
from tests.data.miniatures import write_mnist
from tests.data.server import running

CONTENT = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server():
    with running({"/file": CONTENT}) as server:
        yield server


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def get(root, tmp_path):
    def get(*mirrors, sha256=DIGEST, **more):
        return fetch(Source("sub/file", mirrors, sha256), root, cache=tmp_path / "cache", **more)

    return get


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def nowhere():
    """Return an address at which nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/file"


def test_a_whole_file_with_progress(server, get, root):
    seen = []
    path = get(server.address(), progress=lambda *said: seen.append(said))
    assert path == root / "sub" / "file"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("file", len(CONTENT), len(CONTENT))
    assert files(root) == ["sub/file"]
    get(server.address())
    assert server.asked == [None]


@pytest.mark.parametrize("sha256", [DIGEST, None])
def test_a_dropped_connection_is_resumed(server, get, root, sha256):
    server.most = 300_000
    assert get(server.address(), sha256=sha256).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert files(root) == ["sub/file"]


def test_a_killed_download_is_resumed_by_the_next_command(server, get, root):
    server.most = 300_000

    def stop(_name, done, _total):
        if done >= 200_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(server.address(), progress=stop)
    assert not (root / "sub" / "file").exists()
    server.most = None
    assert get(server.address()).read_bytes() == CONTENT
    assert server.asked[-1] is not None
    assert files(root) == ["sub/file"]


def test_a_server_without_ranges_starts_again(server, get, root):
    (root / "sub").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        get(server.address(), progress=interrupt)
    server.ranges = False
    assert get(server.address()).read_bytes() == CONTENT


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_part_that_is_longer_than_the_file_is_thrown_away(server, get, root):
    server.files["/file"] = CONTENT * 2
    with pytest.raises(KeyboardInterrupt):
        get(server.address(), progress=lambda _name, done, _total: done > len(CONTENT) and interrupt())
    server.files["/file"] = CONTENT
    assert get(server.address()).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT, CONTENT[::-1]], ids=["whole", "other bytes"])
def test_a_part_as_long_as_the_file_is_kept_if_its_checksum_fits(server, get, root, content):
    server.files["/file"] = content
    with pytest.raises(KeyboardInterrupt):
        get(server.address(), progress=lambda _name, done, _total: done == len(CONTENT) and interrupt())
    server.files["/file"] = CONTENT
    if content == CONTENT:
        assert get(server.address()).read_bytes() == CONTENT
    else:
        with pytest.raises(InputError, match="its SHA-256 is"):
            get(server.address())
        assert files(root) == []
    assert server.asked == [None, f"bytes={len(CONTENT)}-"]


def test_a_server_that_always_breaks_is_given_up(server, get, root):
    server.most = 0
    with pytest.raises(InputError, match=r"cannot fetch file from http.*the connection broke.*put it at .*sub/file"):
        get(server.address())
    assert len(server.asked) == 5


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, get, root):
    with pytest.raises(InputError, match=r"its SHA-256 is \w{64} instead of 0000"):
        get(server.address(), sha256="0" * 64)
    assert files(root) == []


def test_the_next_mirror_is_asked(server, get, root):
    server.files["/lie"] = b"lies"
    path = get(nowhere(), server.address("gone"), server.address("lie"), server.address())
    assert path.read_bytes() == CONTENT
    assert files(root) == ["sub/file"]


def test_an_unreachable_source_says_what_to_put_where(get, root):
    with pytest.raises(InputError) as refused:
        get(nowhere(), nowhere())
    sentence = str(refused.value)
    assert sentence.startswith("cannot fetch file from http://127.0.0.1:")
    assert sentence.endswith(f"get it by other means and put it at {root / 'sub' / 'file'}")
    assert "\n" not in sentence
    assert files(root) == []


@pytest.fixture
def mnist(server, tmp_path, monkeypatch):
    """A small MNIST on the server, in place of the public one."""
    write_mnist(tmp_path / "public", pack=True)
    for name in FILES:
        server.files[f"/{name}.gz"] = (tmp_path / "public" / f"{name}.gz").read_bytes()
    sources = tuple(Source(f"MNIST/raw/{name}.gz", (server.address(f"{name}.gz"),)) for name in FILES)
    monkeypatch.setattr(ColoredMnist, "sources", sources)
    return server


def test_the_command_fetches_then_finds(mnist, root, tmp_path, capsys):
    mnist.most = 100_000
    words = ["data", "colored_mnist", "--root", str(root), "--cache", str(tmp_path / "cache")]
    assert main(words) == 1  # fetched and ready, and not the official counts
    said = capsys.readouterr()
    assert "MNIST: 600 images" in said.out
    assert "differs: MNIST has 600 images instead of 70,000" in said.out
    assert "ready: 32x32 pixels" in said.out
    assert "train-images-idx3-ubyte.gz: " in said.err
    asked = len(mnist.asked)
    assert main(words) == 1
    assert len(mnist.asked) == asked


def test_the_command_says_what_to_put_where(mnist, root, tmp_path, capsys):
    del mnist.files[f"/{FILES[2]}.gz"]
    assert main(["data", "colored_mnist", "--root", str(root), "--cache", str(tmp_path / "cache"), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "it answers 404 Not Found" in said
    assert said.endswith(f"put it at {root / 'MNIST' / 'raw' / FILES[2]}.gz\n")
