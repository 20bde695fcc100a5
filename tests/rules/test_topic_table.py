"""The packed table of topics does what a table of plain rows does."""

from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.registry_tables import Table, TopicTable
from namesrv_stream.rules.rows import TopicRow
from tests.examples import examples

ROWS = st.builds(TopicRow, st.sampled_from("tuv"), st.sampled_from(["broker-a", "broker-b"]), *[st.integers(0, 1)] * 4)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "drop", "refresh"]), ROWS), max_size=30)
LOADED = st.lists(ROWS, unique_by=lambda row: row[:2])


def assert_same(packed, plain):
    assert set(packed.groups()) == set(plain.groups())
    assert sorted(packed) == sorted(plain)
    for name in ("broker-a", "broker-b", "nobody"):
        assert packed.of(name) == plain.of(name)
        assert packed.first(name) == plain.first(name)
        assert [packed.known(name, (topic, name)) for topic in "tuv"] == [
            plain.known(name, (topic, name)) for topic in "tuv"
        ]


@examples(50)
@given(loaded=LOADED, is_packed=st.booleans(), steps=STEPS)
def test_it_holds_and_journals_what_a_table_of_plain_rows_does(loaded, is_packed, steps):
    journals = [], []
    packed = TopicTable(journals[0])
    plain = Table("topic", lambda row: row[:2], lambda row: row.broker_name, journals[1])
    loaded = sorted(loaded)
    packed.load(TopicQueues.of(loaded) if is_packed else loaded)
    plain.load(loaded)
    assert_same(packed, plain)
    for step, row in steps:
        for table in (packed, plain):
            getattr(table, step)(row)
    assert_same(packed, plain)
    assert journals[0] == journals[1]


def test_packed_rows_may_come_on_top_of_others():
    table = TopicTable([])
    first, second = TopicRow("t", "broker-a", 8, 8, 6, 0), TopicRow("u", "broker-a", 8, 8, 6, 0)
    table.load([first])
    table.load(TopicQueues.of([second]))
    assert sorted(table) == [first, second]
