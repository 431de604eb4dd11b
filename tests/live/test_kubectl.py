"""kubectl as people use it, on ``podtide cluster --hollow``: each line has to succeed. Skipped where there is no kubectl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT

SETS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1", ports: [{containerPort: 80}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stated}
spec:
  replicas: 2
  serviceName: stated
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: stated}}
  template:
    metadata: {labels: {app: stated}}
    spec: {containers: [{name: c, image: "i:1"}]}
"""
SCRIPT = """
set -eux -o pipefail
is() { test "$1" = "$2"; }
has() { grep "$1" > found; }
kubectl apply -f sets.yaml
kubectl rollout status deployment/web statefulset/stated --timeout=60s
kubectl scale deployment web --replicas=30
kubectl rollout status deployment/web --timeout=60s
is "$(kubectl get deployment web -o jsonpath='{.status.readyReplicas} {.status.observedGeneration}')" "30 2"
kubectl wait --for=condition=Available deployment/web --timeout=60s
kubectl wait --for=condition=Ready pod -l app=web --timeout=60s
is "$(kubectl get pods -l app=web -o name | wc -l)" 30
kubectl get pods -l app=web -o json | has '"kind": "List"'
kubectl get deployment web -o yaml | has '^  replicas: 30'
kubectl get pods -o wide --sort-by=.metadata.name --field-selector=status.phase=Running | has '^stated-0 .*node-'
kubectl get all,nodes
kubectl describe deployment web | has '30 desired | 30 updated | 30 total | 30 available | 0 unavailable'
kubectl describe pod stated-0 | has '^Status: *Running'
kubectl describe nodes
kubectl logs stated-0
sed 's/replicas: 2/replicas: 3/' sets.yaml | kubectl apply -f - | has configured
is "$(kubectl apply -f sets.yaml --server-side --force-conflicts --dry-run=server | wc -l)" 2
kubectl rollout status deployment/web statefulset/stated --timeout=60s
kubectl explain pod.spec.containers | has 'imagePullPolicy.*<string>'
(sed 's/image:/imagee:/' sets.yaml | kubectl apply -f - 2>&1 || true) | has 'containers\\[0\\].imagee'
kubectl patch deployment web -p '{"spec":{"replicas":1}}'
kubectl label pod stated-0 one=two
kubectl annotate pod stated-0 one=two
kubectl run alone --image=i:1 --restart=Never
kubectl wait --for=jsonpath='{.status.phase}'=Running pod/alone --timeout=60s
(timeout 3 kubectl get pods alone -w --output-watch-events > watched || true) &
sleep 1
kubectl delete pod alone
wait
has '^DELETED *alone' < watched
kubectl delete -f sets.yaml --cascade=foreground --timeout=60s
kubectl wait --for=delete pod --all --timeout=60s
is "$(kubectl get pods -o name | wc -l)" 0
kubectl api-resources
echo whole
"""


def test_each_line_of_a_script(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    (tmp_path / "sets.yaml").write_text(SETS)
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}/.typing", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "podtide", "cluster", "--hollow", "--", "bash", "-c", SCRIPT]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    assert ran.stdout.rstrip().endswith("whole")
