"""A kubeconfig whose user acts as another has the rights of the other alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from swerl_kube import Forbidden, KubeClient


async def test_client_is_the_user_that_the_kubeconfig_names(kubeconfig: str, tmp_path: Path) -> None:
    document = yaml.safe_load(Path(kubeconfig).read_text())
    extra = {"example.com/Team": ["rl"]}
    for item in document["users"]:
        item["user"] |= {"as": "reader", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": extra}
    restricted = Path(kubeconfig).parent / f"{tmp_path.name}.yaml"  # beside it: its files have relative paths
    restricted.write_text(yaml.safe_dump(document))
    try:
        async with KubeClient.from_environment(str(restricted)) as client:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
            who = (await client.create("selfsubjectreviews", review))["status"]["userInfo"]
            assert (who["username"], who["uid"], who["groups"]) == ("reader", "7", ["a", "b", "system:authenticated"])
            assert who["extra"] == {"example.com/team": ["rl"]}
            with pytest.raises(Forbidden, match='User "reader" cannot list'):
                await client.list("v1", "secrets", "kube-system")
    finally:
        restricted.unlink()
