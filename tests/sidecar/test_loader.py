"""Envoy's half is written in an order in which no request is lost."""

from ruamel.yaml import YAML

from sidecar.loader import Loader
from tests.policy.build import MINIMAL


def clusters(folder):
    content = YAML(typ="safe", pure=True).load(folder / "envoy" / "cds.yaml")
    return [cluster["name"] for cluster in content["resources"]]


def test_cluster_that_an_edit_renames_stays_until_envoy_has_read_the_routes(tmp_path):
    path = tmp_path / "gateway.yaml"
    path.write_text(MINIMAL)
    loader = Loader(path, tmp_path / "envoy")
    loader.publish(loader.load())
    path.write_text(MINIMAL.replace("  web:", "  site:").replace("upstream: web", "upstream: site"))
    renamed = loader.load()

    assert loader.publish(renamed) == ["cds.yaml", "rds-public.yaml"]
    assert clusters(tmp_path) == ["wardgate", "site", "web"]
    assert loader.settle(renamed) == ["cds.yaml"]
    assert clusters(tmp_path) == ["wardgate", "site"]
    assert loader.settle(renamed) == []
