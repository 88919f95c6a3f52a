"""Volumes for claims of the storage class `swerl`: folders of the cluster's state, by namespace and claim.

`python3 -m cluster.storage --server URL --pki DIR --folder DIR`. Guarantees: a claim without a volume gets one, once; a
volume whose claim is gone goes with its folder; nothing outside `--folder` is ever removed.
"""

import argparse
import contextlib
import queue
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from cluster.api import ApiClient, Unreachable
from cluster.watch import Changed, Json, Listed, ObjectWatch

STORAGE_CLASS = "swerl"
PROVISIONER = "swerl.dev/folder"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"


def storage_class() -> dict[str, Any]:
    """The default class of the cluster."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def unbound(claim: Json) -> Json | None:
    """`claim` itself when it needs a volume from here."""
    spec, meta = claim["spec"], claim["metadata"]
    is_supported = (
        spec.get("storageClassName") == STORAGE_CLASS and spec.get("volumeMode", "Filesystem") == "Filesystem"
    )
    return claim if is_supported and not spec.get("volumeName") and not meta.get("deletionTimestamp") else None


def released(volume: Json) -> Json | None:
    """`volume` itself when it came from here and its claim is gone."""
    is_provisioned = volume["metadata"].get("annotations", {}).get(_PROVISIONED_BY) == PROVISIONER
    unused = volume.get("status", {}).get("phase") in ("Released", "Failed")
    return (
        volume
        if is_provisioned and unused and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        else None
    )


def volume_for(claim: Json, folder: Path) -> dict[str, Any]:
    """The volume that only `claim` can bind: a folder below `folder`."""
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta['uid']}", "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": STORAGE_CLASS,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: meta[key] for key in ("namespace", "name", "uid")},
            },
            "hostPath": {"path": str(folder / meta["namespace"] / meta["name"]), "type": "DirectoryOrCreate"},
        },
    }


class Provisioner:
    """Turns events into volumes, one at a time; what fails comes again with the next listing."""

    def __init__(self, api: ApiClient, folder: Path) -> None:
        self._api, self._folder = api, folder.resolve()
        self.events: queue.Queue[Listed | Changed] = queue.Queue()

    def run(self) -> None:
        """Work for ever."""
        while True:
            event = self.events.get()
            for value in event.objects.values() if isinstance(event, Listed) else [event.value]:
                if value is not None:
                    self._handle(event.kind, value)

    def _handle(self, kind: str, value: Json) -> None:
        for _ in range(5):
            try:
                self._provision(value) if kind == "claims" else self._remove(value)
                return
            except (Unreachable, OSError) as error:
                print(f"{kind} {value['metadata']['name']}: {error}", file=sys.stderr, flush=True)
                time.sleep(1)

    def _provision(self, claim: Json) -> None:
        volume = volume_for(claim, self._folder)
        path = Path(volume["spec"]["hostPath"]["path"])
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)  # like an emptyDir: Pods of any user write there
        self._api.send("POST", _VOLUMES, volume)

    def _remove(self, volume: Json) -> None:
        path = Path(volume["spec"]["hostPath"]["path"]).resolve()
        if path.is_relative_to(self._folder) and path != self._folder:
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # the namespace's folder, once it is empty
        self._api.send("DELETE", f"{_VOLUMES}/{volume['metadata']['name']}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="cluster.storage", description="volumes of one node")
    for flag in ("--server", "--pki", "--folder"):
        parser.add_argument(flag, required=True)
    options = parser.parse_args()
    api = ApiClient(options.server, Path(options.pki), "storage")
    provisioner = Provisioner(api, Path(options.folder))
    ObjectWatch(api, "claims", _CLAIMS, unbound, provisioner.events).start()
    ObjectWatch(api, "volumes", _VOLUMES, released, provisioner.events).start()
    provisioner.run()


if __name__ == "__main__":
    main()
