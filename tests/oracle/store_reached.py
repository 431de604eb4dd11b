"""Which rules of the snapshots store a scenario reached, told from real Spark's answers."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line

RULES: Final = {
    "first-delivery": "a subscriber gets the current snapshot at once",
    "timer": "a timer delivers what has queued up",
    "timer-empty": "a timer delivers although nothing has come",
    "timer-catches-up": "several runs of a timer fall into one line",
    "notified": "a notification delivers before the timer does",
    "notified-all": "it does so to every subscriber",
    "every-update": "each update of a line is a snapshot of its own",
    "update-nothing": "an update that changes nothing is a snapshot all the same",
    "replace": "a replacement takes the time of the clock",
    "replace-drops": "a pod that is not in it is gone",
    "update-keeps-time": "an update keeps the time of the last replacement",
    "id-as-number": "an id with leading zeros is a number",
    "held": "what was submitted waits for a thread",
    "busy": "a notification finds the subscriber busy: it runs again afterwards",
    "busy-update": "what another thread queues meanwhile is delivered next",
    "other-thread": "another thread delivers to another subscriber meanwhile",
    "threw": "a subscriber throws: the timer goes on",
    "fatal": "a fatal error ends a subscriber's timer",
    "fatal-submitted": "in a run that was asked for it does not",
    "extra-delivery": "after it, a notification delivers twice",
    "exit": "an illegal argument ends the process",
    "exit-number-format": "and so does a number that is none",
    "unreadable-number": "an id that is no number throws to the source",
    "unreadable-null": "a pod without status or phase throws to the source",
    "update-partly": "of several updates those before the unreadable one count",
    "stop-runs": "what was asked for before the stop still runs",
    "stop-refuses": "after the stop a notification throws",
    "stop-refuses-subscriber": "and so does a subscription",
    "stop-queues": "after the stop updates still queue",
}

BEYOND: Final = {"races": "threads meet only where a scenario says so, one at a time"}


class StoreReached(Watch):
    """Counts the rules that one scenario reaches."""

    rules = RULES

    def __init__(self) -> None:
        super().__init__()
        self._state: dict[str, Any] = {"current": {"full": 0, "pods": {}}, "subs": {}, "submitted": 0}
        self._stopped = False

    def see(self, line: Line, answers: Answers) -> None:
        """Count what one line of the scenario reached."""
        if "conf" in line or self._state.get("exited"):
            return
        before, after = self._state, answers[-1]["state"]
        acts: list[Line] = line.get("ops", [line])
        delivered = [answer for answer in answers if "deliver" in answer]
        names = Counter(answer["deliver"] for answer in delivered)
        thrown = [answer for answer in answers if "throws" in answer]
        for act in acts:
            self._act(act, acts, before, after, answers)
        self._deliveries(line, acts, before, delivered, names)
        self._hit("held", after["submitted"] > 0)
        for answer in thrown:
            name, what = answer["by"], answer["throws"]
            self._hit("threw", what in ("IllegalState", "Other"))
            self._hit("exit", what == "IllegalArgument" and bool(after.get("exited")))
            self._hit("exit-number-format", what == "NumberFormat" and bool(after.get("exited")))
            if what == "fatal" and name in after["subs"] and name in before["subs"] and not after.get("exited"):
                ended = before["subs"][name]["nextTick"] is not None and after["subs"][name]["nextTick"] is None
                self._hit("fatal" if ended else "fatal-submitted", ended or after["subs"][name]["nextTick"] is not None)
        left = {name for name, sub in before["subs"].items() if sub["notifications"] > 0}
        asked = [act for act in acts if act.get("notify")]
        self._hit(
            "extra-delivery", bool(asked) and not before["submitted"] and any(names[name] > len(asked) for name in left)
        )
        self._state = after

    def _act(self, act: Line, acts: list[Line], before: Line, after: Line, answers: Answers) -> None:
        threw = [answer["threw"] for answer in answers if "threw" in answer]
        if "replace" in act and not threw and len(acts) == 1 and "during" not in act:
            self._hit("replace", after["current"]["full"] > before["current"]["full"])
            self._hit("replace-drops", bool(before["current"]["pods"].keys() - after["current"]["pods"].keys()))
        if "update" in act:
            self._hit("update-keeps-time", len(acts) == 1 and act["update"] != [] and before["current"]["full"] > 0)
            self._hit("every-update", len(act["update"]) > 1 and not threw)
            strange = all(pod["id"] in ("EXECID", None) for pod in act["update"])
            self._hit("update-nothing", strange and not threw and bool(act["update"]))
            self._hit("stop-queues", self._stopped and not threw)
            self._hit("update-partly", bool(threw) and len(acts) == 1 and before["current"] != after["current"])
            self._hit(
                "id-as-number", any(pod["id"] == "007" for pod in act["update"]) and "7" in after["current"]["pods"]
            )
        self._hit("unreadable-number", any("NumberFormat" in what for what in threw))
        self._hit("unreadable-null", any("NullPointer" in what for what in threw))
        refused = any("RejectedExecution" in what for what in threw)
        self._hit("stop-refuses", refused and bool(act.get("notify")))
        self._hit("stop-refuses-subscriber", refused and "subscribe" in act)
        if act.get("stop"):
            self._stopped = True
            notified = any(other.get("notify") for other in acts)
            self._hit("stop-runs", notified and any("deliver" in answer for answer in answers))

    def _deliveries(
        self, line: Line, acts: list[Line], before: Line, delivered: list[Line], names: Counter[str]
    ) -> None:
        notified = [act for act in acts if act.get("notify")]
        fresh = line.get("subscribe")
        for answer in delivered:
            name = answer["deliver"]
            sub = before["subs"].get(name)
            if sub is None:
                self._hit("first-delivery", name == fresh)
                continue
            on_time = answer["at"] == sub["nextTick"]
            self._hit("timer", on_time and bool(answer["snapshots"]))
            self._hit("timer-empty", on_time and not answer["snapshots"])
            early = sub["nextTick"] is not None and answer["at"] < sub["nextTick"]
            self._hit("notified", bool(notified) and early)
            self._hit("other-thread", answer.get("depth", 0) > 0)
        self._hit("notified-all", len(notified) == 1 and len(names) > 1 and names.keys() == before["subs"].keys())
        self._hit("timer-catches-up", not notified and max(names.values(), default=0) > 1)
        for name, acts_meanwhile in line.get("during", {}).items():
            again = names[name] > 1 and name in before["subs"]
            self._hit("busy", again and any(act.get("notify") for act in acts_meanwhile) and bool(line.get("notify")))
            self._hit("busy-update", again and any({"update", "replace"} & act.keys() for act in acts_meanwhile))
