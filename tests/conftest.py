"""Fixtures of the black-box tests: a server that most of them share, and repositories of their own."""

import itertools

import pytest

from model_files import Repository, every_type_config, identity_config
from stoker_server import Server

QUEUE = """dynamic_batching {
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { default_timeout_microseconds: 30000000 allow_timeout_override: true max_queue_size: 16 }
}
instance_group [ { count: 1 } ]
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Identity models for the clients; nobody changes what it serves."""
    models = Repository(tmp_path_factory.mktemp("shared") / "models")
    models.add("every", every_type_config())
    models.add("floats", identity_config())
    models.add("batched", identity_config(extra="dynamic_batching { max_queue_delay_microseconds: 1000 }\n"))
    models.add("text", identity_config("BYTES"))
    models.add("classes", identity_config(dims="4", batch=8).replace(
        'dims: [ 4 ] } ]\noutput [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ]',
        'dims: [ 4 ] } ]\noutput [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt"'),
        labels=["ant", "bee", "cat", "dog"])
    models.add("slow", identity_config(batch=1, delay_ms=150, extra=QUEUE))
    models.add("slow_alone", identity_config(batch=1, delay_ms=400))
    models.add("versions", identity_config(extra="version_policy { specific { versions: [ 1, 3 ] } }\n"),
               versions=(1, 2, 3))
    with Server(models) as server:
        yield server


@pytest.fixture
def models(tmp_path):
    """An empty repository of the test's own."""
    return Repository(tmp_path / "models")


@pytest.fixture(scope="session")
def unique():
    """Numbers that no other test gets."""
    numbers = itertools.count(1)
    return lambda: next(numbers)
