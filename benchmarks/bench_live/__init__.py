"""podtide next to real Spark 4.3.0, in charge of executor pods on one real API server, in one run.

``python -m benchmarks.bench_live [--quick|--full]``: the same server, the same hollow kubelet, the same settings, the same
user and Role, one after the other where they would slow each other down. It prints tables in Markdown (RESULTS.md).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".typing"))  # the checkout's own podtide, installed or not
