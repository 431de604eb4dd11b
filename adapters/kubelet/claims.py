"""Claims as folders that outlive pods: what a provisioner of volumes does, for the pods of one namespace.

A claim is bound when the first pod needs it: to the volume that it names, if that is a hostPath or a local one, or to a new
PersistentVolume, a folder of the kubelet's. The folder stays while the claim is there, so that another pod finds what was
left in it. Once the claim is gone, folder and volume go. A claim that is ReadWriteOncePod serves one pod at a time.
"""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Final

from podtide.adapters.kubelet.led_pods import Document, NamespaceCalls
from podtide.adapters.kubelet.pod_facts import CannotRun
from podtide.adapters.kubelet.sources import CLAIMS

VOLUMES: Final = "persistentvolumes"
ALONE: Final = "ReadWriteOncePod"


class ClaimFolders:
    """The claims of a namespace that pods use or used. Thread-safe."""

    def __init__(self, calls: NamespaceCalls, folder: Path) -> None:
        self._call = calls.call
        self._path = f"{calls.path}/{CLAIMS}"
        self._folder = folder
        self._lock = threading.Lock()
        self._own: dict[str, Path] = {}
        """Folders made here, by the claim's uid."""
        self._users: dict[str, set[str]] = {}
        """Pods by claim, as uids."""

    def taken(self, claim: Document, pod: str) -> Path | None:
        """The folder of a claim for a pod (its uid); None while another pod has it alone. Raises CannotRun, OSError."""
        uid = claim["metadata"]["uid"]
        with self._lock:
            others = self._users.get(uid, set()) - {pod}
            if others and ALONE in claim["spec"]["accessModes"]:
                return None
            folder = self._bound(claim)
            self._users.setdefault(uid, set()).add(pod)
            return folder

    def left(self, pod: str) -> None:
        """A pod has ended."""
        with self._lock:
            for users in self._users.values():
                users.discard(pod)

    def sweep(self) -> None:
        """Remove the folders and volumes of claims that are gone."""
        known = list(self._own)
        if not known:
            return
        listed = self._call("list", CLAIMS, self._path)
        if listed is None or not listed.ok:
            return
        there = {claim["metadata"]["uid"] for claim in json.loads(listed.body)["items"]}
        with self._lock:
            gone = [uid for uid in known if uid not in there and not self._users.get(uid)]
            for uid in gone:
                shutil.rmtree(self._own.pop(uid), ignore_errors=True)
                self._users.pop(uid, None)
        for uid in gone:
            self._call("delete", VOLUMES, f"/api/v1/{VOLUMES}/{_volume_name(uid)}")

    def _bound(self, claim: Document) -> Path:
        """The folder of a claim, which is bound to it if it is not bound yet."""
        uid, spec = claim["metadata"]["uid"], claim["spec"]
        name = spec.get("volumeName")
        if name and name != _volume_name(uid):
            folder = self._given(claim["metadata"]["name"], name)
        else:
            folder = self._own[uid] = self._folder / uid
            folder.mkdir(parents=True, exist_ok=True)
        if claim.get("status", {}).get("phase") != "Bound":
            self._bind(claim, folder, name)
        return folder

    def _given(self, claim: str, name: str) -> Path:
        answer = self._call("get", VOLUMES, f"/api/v1/{VOLUMES}/{name}")
        volume = json.loads(answer.body) if answer is not None and answer.ok else {"spec": {}}
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        if source is None:
            raise CannotRun(f"claim {claim}: its volume {name} is no hostPath and no local one, or is not there")
        return Path(source["path"])

    def _bind(self, claim: Document, folder: Path, given: str | None) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        name = given or _volume_name(metadata["uid"])
        ref = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        ref |= {key: metadata[key] for key in ("namespace", "name", "uid")}
        capacity = {"storage": spec["resources"]["requests"]["storage"]}
        if given is None:
            volume = {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": capacity,
                    "accessModes": spec["accessModes"],
                    "persistentVolumeReclaimPolicy": "Delete",
                    "hostPath": {"path": str(folder)},
                    "claimRef": ref,
                    **({"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}),
                },
            }
            self._call("create", VOLUMES, f"/api/v1/{VOLUMES}", volume)
        else:
            self._call("patch", VOLUMES, f"/api/v1/{VOLUMES}/{name}", {"spec": {"claimRef": ref}})
        path = f"{self._path}/{metadata['name']}"
        bound = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity}
        self._call("patch", VOLUMES, f"/api/v1/{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}})
        if given is None:
            self._call("patch", CLAIMS, path, {"spec": {"volumeName": name}})
        self._call("patch", CLAIMS, f"{path}/status", {"status": bound})


def _volume_name(claim_uid: str) -> str:
    return f"pvc-{claim_uid}"
