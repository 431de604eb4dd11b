"""What a scenario's lines say of its executors, for reached.py: who is there, what they hold, since when they idle.

A rough copy of ExecutorMonitor's bookkeeping, good enough to name the reason for what the judge's state lines
show; it decides nothing itself, and the conformance of any implementation does not depend on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from tests.oracle.settings import DA, Setting

UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "": 1_000}
DROPPING: Final = ("UnpersistRDD", "BlockUpdated")


@dataclass
class Held:
    """One executor, as far as the lines tell."""

    profile: int | None = None
    running: int = 0
    idle_since: int | None = None
    blocks: set[str] = field(default_factory=set)
    shuffles: set[int] = field(default_factory=set)
    by_block_alone: bool = True


def duration_ms(text: str) -> int:
    """Milliseconds of a Spark duration in seconds, or of one with a suffix."""
    found = re.fullmatch(r"(\d+)([a-z]*)", text)
    assert found is not None, text
    return int(found.group(1)) * UNITS[found.group(2)]


class ExecutorMirror:
    """All executors of a scenario."""

    def __init__(self, setting: Setting) -> None:
        conf: dict[str, str] = setting.header["conf"]
        self._idle_ms = duration_ms(conf.get(DA + "executorIdleTimeout", "60s"))
        self._tracking = setting.tracking
        served = conf.get("spark.shuffle.service.fetch.rdd.enabled") == "true"
        self._served = served and conf.get("spark.shuffle.service.enabled") == "true"
        self._shuffle_of: dict[int, int] = {}
        self._seen_shuffles: set[int] = set()
        self._active: set[str] = set()
        self._always = setting.header.get("options", {}).get("active") == "always"
        self._since_tick: set[str] = set()
        self._hits: list[str] = []
        self.known: dict[str, Held] = {}

    def profile(self, name: str) -> int | None:
        """The executor's profile, None while it has not registered."""
        held = self.known.get(name)
        return held.profile if held else None

    def see(self, line: dict[str, Any]) -> None:
        """Take in one line."""
        client = line.get("client", {})
        self._active |= set(client.get("active", ()))
        self._active -= set(client.get("inactive", ()))
        if line.get("reset"):
            self.known.clear()
        if "shuffleCleaned" in line:
            self._since_tick.add("cleaned")
            for held in self.known.values():
                held.shuffles.discard(line["shuffleCleaned"])
        if "event" in line:
            event = line["event"]
            name = event["Event"].rpartition("SparkListener")[2]
            self._since_tick.add(name)
            self._event(name, event, line["at"])

    def _event(self, name: str, event: dict[str, Any], now: int) -> None:
        match name:
            case "ExecutorAdded":
                executor = event["Executor ID"]
                self._active.add(executor)
                held = self.known.setdefault(executor, Held())
                held.by_block_alone = False
                if held.profile is None:
                    held.profile = event["Executor Info"].get("Resource Profile Id", 0)
                if held.running == 0:
                    held.idle_since = now
            case "ExecutorRemoved":
                self._active.discard(event["Executor ID"])
                self.known.pop(event["Executor ID"], None)
            case "TaskStart":
                executor = event["Task Info"]["Executor ID"]
                if executor in self._active or self._always:
                    held = self.known.setdefault(executor, Held())
                    held.running += 1
                    held.idle_since, held.by_block_alone = None, False
            case "TaskEnd":
                self._task_end(event, now)
            case "JobStart":
                for info in event.get("Stage Infos", ()):
                    if "Shuffle Dep ID" in info and self._tracking:
                        shuffle = info["Shuffle Dep ID"]
                        if shuffle in self._seen_shuffles:
                            self._hits.append("shuffle-reused")
                        self._seen_shuffles.add(shuffle)
                        self._shuffle_of[info["Stage ID"]] = shuffle
            case "BlockUpdated":
                self._block(event["Block Updated Info"])
            case "UnpersistRDD":
                prefix = f"rdd_{event['RDD ID']}_"
                for held in self.known.values():
                    held.blocks = {block for block in held.blocks if not block.startswith(prefix)}
            case _:
                pass

    def _task_end(self, event: dict[str, Any], now: int) -> None:
        held = self.known.get(event["Task Info"]["Executor ID"])
        if held is None:
            return
        if held.running == 0:
            self._hits.append("idle-restarted")
        held.running = max(0, held.running - 1)
        held.by_block_alone = False
        held.idle_since = None if held.running else now
        if event["Task End Reason"]["Reason"] == "Success" and event["Stage ID"] in self._shuffle_of:
            held.shuffles.add(self._shuffle_of[event["Stage ID"]])

    def _block(self, info: dict[str, Any]) -> None:
        executor, block = info["Block Manager ID"]["Executor ID"], info["Block ID"]
        if executor not in self._active and not self._always:
            return
        held = self.known.setdefault(executor, Held())
        level = info["Storage Level"]
        if block.startswith("shuffle_") and block.endswith(".data") and self._tracking:
            held.shuffles.add(int(block.split("_")[1]))
        elif block.startswith("rdd_"):
            served = self._served and level["Use Disk"]
            if served:
                self._hits.append("disk-blocks-served")
            if (level["Use Disk"] or level["Use Memory"]) and not served:
                held.blocks.add(block)
            else:
                held.blocks.discard(block)

    def ticked(self, now: int, idle: set[str], idle_before: set[str], leaving: set[str]) -> list[str]:
        """Return the rules that a tick's list of idle executors shows, and begin the next tick's time."""
        hits, self._hits = self._hits, []
        for name, held in self.known.items():
            since = held.idle_since
            if name in idle - idle_before and since is not None:
                hits.append("idle-shuffle" if held.shuffles else "idle-cached" if held.blocks else "idle")
                if now - since > self._idle_ms + 1_000:
                    hits += ["released-by-unpersist"] if self._since_tick & {*DROPPING} and not held.blocks else []
                    hits += ["released-by-job-end"] if "JobEnd" in self._since_tick and held.shuffles else []
                    hits += ["released-by-cleaner"] if "cleaned" in self._since_tick and not held.shuffles else []
            elif name not in idle | leaving:
                if held.by_block_alone:
                    hits.append("held-never-idle")
                elif since is not None and now - since > self._idle_ms:
                    hits += ["held-by-shuffle"] if held.shuffles else ["held-by-cache"] if held.blocks else []
        self._since_tick = set()
        return hits
