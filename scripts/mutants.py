# ruff: noqa: D102 - a visit of a node is what its name says
"""How many small mistakes in the decisions would the tests see?

``python scripts/mutants.py [--share N] [--out FILE] [PATH...]`` (``make mutants``) plants mistakes in the functions of the
domain, one at a time: a comparison that is off by one or the other way round, ``and`` for ``or``, a condition denied, a sum
that is a difference, a number that is one more, a call that is left out. It runs the tests of PATH (tests/domain and
tests/conformance) that come past the mistake, the quickest first, until one of them fails. A mistake that no test sees
survives. The score is the part that does not.

One of N mistakes is tried (40), drawn by the hash of what it says and of the function that it stands in: the same
mistakes, whatever moves around them, so that two versions of the tests can be compared.

All mistakes are compiled into the modules at import, each behind a switch that only the process that tries it turns on.
So pytest imports and collects once, and a mistake costs a fork and the tests that come past it. (mutmut and cosmic-ray
write changed files and know a package by its folder; this one is found through links.)

Exit code: 0; 1 where a test fails before any mistake is planted; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import hashlib
import importlib.machinery
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Final

import pytest

PROJECT: Final = Path(__file__).resolve().parent.parent
DOMAIN: Final = PROJECT / "domain"
DECISIONS: Final = ("scaling", "backend", "kubernetes", "yarn")
"""The rooms that decide; the others are reported beside them."""

SWITCH: Final = "__mutant__"
TESTS_BUDGET_S: Final = 30.0
"""A mistake is given up when the tests that come past it have run as long as this without one mistake."""
HANG_CPU_S: Final = 90
HANG_S: Final = 900
"""Counted in processor time, so that a busy machine sees what an idle one sees; and the clock, for what only waits."""
MEMORY: Final = 6 << 30

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(slots=True)
class Mutant:
    """One mistake and what came of it."""

    key: str
    room: str
    place: str
    change: str
    tests: int = 0
    killer: str | None = None
    fate: str = "not reached"


@dataclass(slots=True)
class Switch:
    """What the compiled modules ask: is this mistake the one that is tried? And, on the first round, who came past."""

    active: int = -1
    reached: set[int] = field(default_factory=set)
    watching: bool = False

    def __call__(self, number: int) -> bool:
        """Whether mistake ``number`` is made now."""
        if self.watching:
            self.reached.add(number)
            return False
        return number == self.active


class Planter(ast.NodeTransformer):
    """Rewrites the functions of one module: ``x < y`` becomes ``(x <= y if __mutant__(7) else x < y)``."""

    def __init__(self, module: str, share: int, mutants: list[Mutant]) -> None:
        self.module, self.share, self.mutants = module, share, mutants
        self.scope: list[str] = []
        self.in_function = 0
        self.seen: Counter[str] = Counter()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.scope.append(node.name)
        self.in_function += 1
        body = node.body
        documented = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        node.body = body[:documented] + [self.visit(each) for each in body[documented:]]
        self.in_function -= 1
        self.scope.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.scope.append(node.name)
        outside, self.in_function = self.in_function, 0
        node.body = [
            self.visit(each) if isinstance(each, ast.FunctionDef | ast.ClassDef) else each for each in node.body
        ]
        self.in_function = outside
        self.scope.pop()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:  # annotations are no code
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Patterns stay as they are: no expression fits there."""
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = [self.visit(each) for each in node.body]
        return node

    def left(self, node: ast.AST) -> ast.AST:
        """Words are not decisions, nor is what an error says."""
        return node

    visit_JoinedStr = visit_Raise = visit_Assert = left  # noqa: N815 - the library's names

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        other = COMPARISONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        mutated = ast.Compare(node.left, [other()], node.comparators) if other is not None else None
        return self._planted(node, mutated)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self._planted(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self._planted(node, node.operand if isinstance(node.op, ast.Not) else None)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        other = OPERATORS.get(type(node.op))
        return self._planted(node, ast.BinOp(node.left, other(), node.right) if other is not None else None)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            return self._planted(node, ast.Constant(not node.value))
        return self._planted(node, ast.Constant(node.value + 1) if isinstance(node.value, int) else None)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._denied(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._denied(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:  # a call for its effect: leave it out
        if isinstance(node.value, ast.Call):
            node.value = self._planted(node.value, ast.Constant(None))  # type: ignore[assignment]
            return node
        return self.generic_visit(node)

    def _denied(self, node: ast.If | ast.IfExp) -> ast.AST:
        """A condition that is a plain value or a call, the other way round (the other conditions are planted inside)."""
        plain = isinstance(node.test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        test = node.test
        self.generic_visit(node)
        if plain and (number := self._number(test, "not " + ast.unparse(test))) is not None:
            node.test = _switched(number, ast.UnaryOp(ast.Not(), copy.deepcopy(test)), node.test)
        return node

    def _planted(self, node: ast.expr, mutated: ast.expr | None) -> ast.expr:
        # Both are made of the same parts, and a visit changes them.
        mistake = copy.deepcopy(mutated)
        number = self._number(node, ast.unparse(mistake)) if mistake is not None else None
        planted: ast.expr = self.generic_visit(node)  # type: ignore[assignment]
        return planted if number is None or mistake is None else _switched(number, mistake, planted)

    def _number(self, node: ast.expr, change: str) -> int | None:
        """Of a mistake that is drawn; None for the others, and outside functions."""
        if not self.in_function or any(
            isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom) for part in ast.walk(node)
        ):
            return None
        text = f"{'.'.join(self.scope)}: {ast.unparse(node)} -> {change}"
        self.seen[text] += 1
        key = f"{text} #{self.seen[text]}"
        if int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % self.share:
            return None
        room = self.module.split(".")[2]
        self.mutants.append(Mutant(key, room, f"{self.module}:{node.lineno}", change))
        return len(self.mutants) - 1


def _switched(number: int, mutated: ast.expr, original: ast.expr) -> ast.expr:
    tried = ast.Call(ast.Name(SWITCH, ast.Load()), [ast.Constant(number)], [])
    return ast.IfExp(tried, mutated, original)


def plant(share: int, mutants: list[Mutant]) -> None:
    """From here on the domain's modules are compiled with their mistakes in them."""
    loaded = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> CodeType | None:
        if not fullname.startswith("podtide.domain."):
            return loaded(loader, fullname)
        path = loader.get_filename(fullname)
        tree = Planter(fullname, share, mutants).visit(ast.parse(loader.get_data(path)))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


@dataclass(slots=True)
class Trial:
    """The pytest plugin that runs the rounds in place of the usual loop."""

    switch: Switch
    mutants: list[Mutant]
    processes: int
    failed: list[str] = field(default_factory=list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Once over everything to see who comes past which mistake; then each mistake in a process of its own."""
        items = session.items
        halves = [items[number :: self.processes] for number in range(self.processes)]
        durations: dict[str, float] = {}
        past: dict[int, list[pytest.Item]] = defaultdict(list)
        by_name = {item.nodeid: item for item in items}
        for rows in _forked(self._watch, halves, self.processes):
            for name, passed, seconds, reached in rows:
                durations[name] = seconds
                if not passed:
                    self.failed.append(name)
                for number in reached:
                    past[number].append(by_name[name])
        if self.failed:
            return True
        print(f"{len(items)} tests, {len(self.mutants)} mistakes, {len(past)} of them reached", file=sys.stderr)
        work = [
            (number, sorted(past[number], key=lambda item: durations[item.nodeid]), durations)
            for number in sorted(past)
        ]
        began = time.monotonic()
        for done, (number, fate, killer, count) in enumerate(_forked(self._try, work, self.processes)):
            mutant = self.mutants[number]
            mutant.fate, mutant.killer, mutant.tests = fate, killer, count
            if done % 50 == 0:
                print(f"{done} of {len(work)}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return True

    def _watch(self, items: Sequence[pytest.Item]) -> list[tuple[str, bool, float, list[int]]]:
        rows = []
        self.switch.watching = True
        for item, following in _with_next(items):
            self.switch.reached.clear()
            began = time.perf_counter()
            passed = _passes(item, following)
            rows.append((item.nodeid, passed, time.perf_counter() - began, sorted(self.switch.reached)))
        return rows

    def _try(self, work: tuple[int, list[pytest.Item], dict[str, float]]) -> tuple[int, str, str | None, int]:
        number, items, durations = work
        signal.alarm(HANG_S)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        spent = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent + HANG_CPU_S, spent + HANG_CPU_S))
        self.switch.active = number
        budget = TESTS_BUDGET_S
        for count, (item, following) in enumerate(_with_next(items)):
            budget -= durations[item.nodeid]
            if budget < 0 and count:
                return number, "survived, not all tried", None, count
            if not _passes(item, following):
                return number, "seen", item.nodeid, count + 1
        return number, "survived", None, len(items)


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    for position, item in enumerate(items):
        yield item, items[position + 1] if position + 1 < len(items) else None


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    from _pytest.runner import runtestprotocol  # noqa: PLC0415

    if hasattr(item, "_initrequest"):
        item._initrequest()
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _forked(work: Callable[[Any], Any], pieces: Sequence[Any], processes: int) -> Iterator[Any]:
    """Each piece in a process of its own, so many at a time; a process that hangs or dies is a mistake that was seen."""
    waiting = list(reversed(pieces))
    running: dict[int, tuple[Any, str]] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            piece = waiting.pop()
            handle, answer = tempfile.mkstemp()
            os.close(handle)
            child = os.fork()
            if not child:
                try:
                    quiet = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(quiet, 1)
                    os.dup2(quiet, 2)
                    Path(answer).write_bytes(pickle.dumps(work(piece)))
                finally:
                    os._exit(0)
            running[child] = (piece, answer)
        child, _status = os.wait()
        if child not in running:
            continue
        piece, answer = running.pop(child)
        data = Path(answer).read_bytes()
        Path(answer).unlink()
        yield pickle.loads(data) if data else (piece[0], "seen", "hangs or dies", 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant, try, print the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="*", default=["tests/domain", "tests/conformance"])
    parser.add_argument("--share", type=int, default=40, help="one of so many mistakes is tried")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="every mistake with its fate, as JSON lines")
    options = parser.parse_args(arguments)
    os.chdir(PROJECT)
    sys.path[:0] = [str(PROJECT), str(PROJECT / ".typing")]
    mutants: list[Mutant] = []
    switch = Switch()
    setattr(builtins, SWITCH, switch)
    plant(options.share, mutants)
    trial = Trial(switch, mutants, options.processes)
    pytest.main(
        [*options.paths, "-q", "-p", "no:xdist", "-p", "no:benchmark", "-p", "no:cacheprovider", "--no-header"], [trial]
    )
    if trial.failed:
        print("these fail before any mistake is planted:", *trial.failed[:10], sep="\n", file=sys.stderr)
        return 1
    if options.out is not None:
        options.out.write_text("".join(json.dumps(asdict(mutant)) + "\n" for mutant in mutants))
    decisions = [mutant for mutant in mutants if mutant.room in DECISIONS]
    for name, group in (("decisions", decisions), ("all of the domain", mutants)):
        seen = sum(mutant.fate == "seen" for mutant in group)
        print(f"{name}: {seen} of {len(group)} mistakes seen, {100 * seen / max(1, len(group)):.1f}%")
    for room in sorted({mutant.room for mutant in mutants}):
        group = [mutant for mutant in mutants if mutant.room == room]
        print(f"  {room}: {sum(mutant.fate == 'seen' for mutant in group)} of {len(group)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
