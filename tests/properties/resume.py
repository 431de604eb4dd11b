"""Goes on with interrupted runs in a process of its own. Started by ``test_stored_states`` alone.

Standard input: a pickle of [(state bytes, moment, rest of the story)]. Standard output: a pickle of
[(what was said, the state line at the end, the state at the end as bytes)].
"""

from __future__ import annotations

import pickle
import sys

from podtide.adapters.conformance.scaling import state_line
from tests.properties.happenings import Run
from tests.support.stored_state import decode, encode


def main() -> None:
    endings = []
    for stored, moment, rest in pickle.load(sys.stdin.buffer):
        run = Run.resumed(decode(stored), moment).live(rest)
        endings.append((run.said, state_line(run.state, run.config), encode(run.state)))
    pickle.dump(endings, sys.stdout.buffer)


if __name__ == "__main__":
    main()
