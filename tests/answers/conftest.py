import pytest

from namesrv_stream.tables.root import Root
from tests.answers.seeded import SeededRegistry
from tests.tables.rows import NOW


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture(scope="session")
def claimed(tmp_path_factory):
    """Empty tables, which stay as they are: tests have copies of them."""
    return SeededRegistry(Root(str(tmp_path_factory.mktemp("claimed") / "registry")), NOW)


@pytest.fixture
def registry(claimed, root):
    return claimed.copied_to(root)
