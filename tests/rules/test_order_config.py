"""An order configuration that crashes clients is found before it is stored."""

import pytest

from namesrv_stream.rules.commands import order_problem


@pytest.mark.parametrize("value", ["broker-a:8", "broker-a:8;broker-b:4", "broker-a:0"])
def test_names_with_a_number_of_queues_can_be_read(value):
    assert order_problem(value) == ""


@pytest.mark.parametrize(
    "value",
    ["", "broker-a", "broker-a:", ":8", "broker-a:-1", "broker-a\uff1a8", "broker-a:8;", "broker-a:8;;broker-b:8",
     "broker-a:8:9", "broker-a:8,broker-b:8", "broker-a: 8", "broker-a:8 ", "broker-a:\u0668", "broker-a:9999999999"],
)  # fmt: skip
def test_everything_else_is_named(value):
    assert "no broker name with a number of queues" in order_problem(value)
