"""Many clients at once: all are answered, and little is lost to serving."""

import pytest

from tests.test_benchmarks import program


def test_a_little_load_gets_no_error(folder):
    seen = program("serve_load").measure(folder, clients=20, seconds=2.0, images=8, reference=0.2)
    assert seen["errors"] == 0, seen
    assert seen["requests"] > 20
    assert seen["MiB after"] < seen["MiB at rest"] + 200


@pytest.mark.long
def test_two_hundred_clients_for_thirty_seconds(folder):
    seen = program("serve_load").measure(folder)
    assert seen["errors"] == 0, seen
    assert seen["ratio"] >= 0.7, seen
    assert seen["MiB after"] < seen["MiB at rest"] + 400
