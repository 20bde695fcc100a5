import shutil

import pytest

from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture(scope="session")
def fresh_tables(tmp_path_factory):
    """Tables that stay as they are: tests have copies of them."""
    folder = tmp_path_factory.mktemp("fresh") / "registry"
    RustWriter(Root(str(folder))).ensure_tables()
    return folder


@pytest.fixture
def writer(root, fresh_tables):
    """On fresh tables."""
    shutil.copytree(fresh_tables, root.url)
    return RustWriter(root)
