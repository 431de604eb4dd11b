"""Goes on with interrupted runs in a process of its own. Started by ``test_stored_states`` alone.

Standard input: a pickle of [(a pickle of a state, moment, rest of the story)]. Standard output: a pickle of
[(what was said, the state line at the end, the state at the end)].
"""

from __future__ import annotations

import pickle
import sys

from podtide.adapters.conformance.scaling import state_line
from tests.properties.happenings import Run
from tests.support import state_contents  # noqa: F401 - it teaches pickle the read-only views of a state


def main() -> None:
    endings = []
    for stored, moment, rest in pickle.load(sys.stdin.buffer):
        run = Run.resumed(pickle.loads(stored), moment).live(rest)
        endings.append((run.said, state_line(run.state, run.config), run.state))
    pickle.dump(endings, sys.stdout.buffer)


if __name__ == "__main__":
    main()
