"""Data flows one way: a room imports from its left, from itself, or from a leaf."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "madod"
ROOMS = [
    "data", "tasks", "models", "translation", "meta", "algorithms", "training", "detectors", "evaluation", "predict",
    "benchmark", "report", "fitting", "export", "serve", "cli", "__main__",
]  # fmt: skip
LEAVES = {"errors", "storage", "progress", "interrupts", "registry", "kinds", "search", "equations"}
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("madod.")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_room_imports_only_from_its_left(file: Path):
    room = room_of(file)
    imported = imported_rooms(file)
    if room == "__init__":  # the public names: for type checkers at once, for everybody else when they are used
        body = ast.parse(file.read_text(encoding="utf-8")).body
        assert {node.module for node in body if isinstance(node, ast.ImportFrom)} == {"typing"}
    elif room in LEAVES:
        assert imported <= LEAVES
    else:
        assert room in ROOMS, f"{room} is in no room"
        assert imported <= LEAVES | set(ROOMS[: ROOMS.index(room) + 1])


def test_only_the_command_line_prints():
    for file in FILES:
        if room_of(file) == "cli":
            continue
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"], file


def test_nothing_is_unpickled():
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        assert "import pickle" not in text, file
        assert "allow_pickle=True" not in text, file
        assert "torch.load(" not in text or "weights_only=True" in text, file


def test_no_hidden_synchronisation_in_methods():
    for file in FILES:
        if room_of(file) != "algorithms":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not attributes & {"item", "cpu", "cuda", "tolist"}, file
