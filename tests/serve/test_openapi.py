"""The server against its own description: requests drawn from it are answered as it says."""

import os
import subprocess
import sys
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]

WORDS = ["--max-examples", "30", "--max-time", "12", "--seed", "7", "--checks", "all", "--generation-database", "none"]


def test_schemathesis_finds_nothing(server, tmp_path):
    """Whatever the description allows is accepted, whatever it forbids is refused, and all answers fit it."""
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", *WORDS],
        cwd=tmp_path, env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.serve.openapi_hooks", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Operations:       6 selected / 6 total" in done.stdout
    assert "Tested: 6" in done.stdout


def test_the_description_names_what_there_is(server):
    described = httpx.get(f"{server.url}/openapi.json").json()
    assert set(described["paths"]) == {"/", "/predict", "/health", "/model", "/metrics", "/similar/{index}.png"}
    predict = described["paths"]["/predict"]["post"]
    assert set(predict["requestBody"]["content"]) == {"multipart/form-data", "image/*", "application/octet-stream"}
    assert set(predict["responses"]) == {"200", "400", "408", "413", "415", "422", "429", "503"}
    assert set(described["paths"]["/health"]["get"]["responses"]) == {"200", "503"}
    assert [option["name"] for option in predict["parameters"]] == ["threshold", "keep", "similar"]
    assert all(option["description"] for option in predict["parameters"])
