"""Names, comments, NOT NULL and CHECK of the tables in Delta, as docs/tables.md has them."""

import pytest
from deltalake.exceptions import DeltaError

from namesrv_stream.rules.rows import ClusterRow, RejectedRow
from namesrv_stream.tables.arrow import rows_to_arrow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER, BROKER_EVENT, CLUSTER, LIVE, REJECTED, TABLES, TOPIC
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.reference_docs import with_columns
from tests.tables.rows import T0, broker, event, live, topic

TAG = CommitTag(epoch=2, term=1)


def stored(table):
    """Name to (NOT NULL, comment) of each column, as Delta has it."""
    return {column.name: (not column.nullable, column.metadata.get("comment")) for column in table.schema().fields}


def test_docs_have_the_columns_and_constraints_of_the_schemas():
    document = (CHECKOUT / "docs" / "tables.md").read_text("utf-8")
    assert with_columns(document) == document, "`python -m tests.reference_docs` writes docs/tables.md"


@pytest.fixture(scope="module")
def new_root(tmp_path_factory):
    root = Root(str(tmp_path_factory.mktemp("new") / "registry"))
    RustWriter(root).ensure_tables()
    return root


@pytest.mark.parametrize("spec", TABLES.values(), ids=lambda spec: spec.name)
def test_a_new_table_has_its_name_description_comments_and_constraints(new_root, spec):
    table = new_root.open(spec)
    assert (table.metadata().name, table.metadata().description) == (spec.name, spec.description)
    assert stored(table) == {column.name: (column.is_required, column.comment) for column in spec.stored_columns}
    assert all(column.comment for column in spec.stored_columns)
    assert all(column.is_required for column in spec.columns if column.name in spec.key)
    properties = table.metadata().configuration
    assert {f"delta.constraints.{name}": sql for name, sql in spec.checks.items()}.items() <= properties.items()
    assert table.protocol().min_writer_version >= (3 if spec.checks else 2)


@pytest.mark.parametrize(
    ("spec", "row"),
    [
        (TOPIC, topic(None)),
        (TOPIC, topic("t")._replace(perm=None)),
        (BROKER, broker(-1)),
        (CLUSTER, ClusterRow(None, "broker-a")),
        (LIVE, live("a")._replace(heartbeat_timeout_millis=0)),
        (LIVE, live("a")._replace(lease_began_at=None)),
        (LIVE, live("a", T0 - 1)),
        (BROKER_EVENT, event("a")._replace(cause=None)),
        (BROKER_EVENT, event("a")._replace(lease_millis=-1)),
        (REJECTED, RejectedRow(T0, 0, 1, None, None, 0, None)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_row_that_breaks_a_constraint_is_refused(new_root, spec, row):
    writer = RustWriter(new_root)
    with pytest.raises(DeltaError, match="failed validation check"):
        if spec in (BROKER_EVENT, REJECTED):
            writer.append(spec, 0, rows_to_arrow(spec, [row]), TAG)
        else:
            writer.merge(spec, 0, RowChanges([row]), TAG)
    assert writer.head(spec) == 0
