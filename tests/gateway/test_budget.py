"""The host that must give something up when peers together hold too much."""

from namesrv_stream.gateway.budget import Budget

MIB = 1024 * 1024


def hold(budget, *holdings):
    for key, host, held, now_s in holdings:
        budget.hold(key, host, held, now_s)


def test_nobody_pays_up_to_the_limit():
    budget = Budget(10)
    hold(budget, ("a", "h", 10, 0))
    assert budget.payer(100) is None
    hold(budget, ("b", "h", 1, 0))
    assert budget.payer(100) is not None


def test_the_host_that_holds_most_pays_not_the_one_that_comes_next():
    budget = Budget(100)
    hold(budget, *((f"hoarder-{number}", "evil", 30, number) for number in range(3)), ("broker", "good", 40, 3))
    assert budget.payer(3) == "hoarder-0", "of equal ones the oldest"
    hold(budget, ("hoarder-0", "evil", 0, 3))
    assert budget.payer(3) is None


def test_many_small_holdings_of_one_host_weigh_more_than_a_large_one_of_another():
    budget = Budget(100)
    hold(budget, *((number, "evil", 2, 0) for number in range(40)), ("broker", "good", 50, 0))
    assert budget.payer(1) in range(40)


def test_of_one_host_bytes_times_seconds_decide():
    budget = Budget(100)
    hold(budget, ("hoarder", "h", 50, 0), ("trickle", "h", 1, 0), ("broker", "h", 60, 99))
    assert budget.payer(100) == "hoarder"


def test_a_holding_is_as_old_as_since_it_had_nothing():
    budget = Budget(10)
    hold(budget, ("a", "h", 5, 0), ("a", "h", 0, 50), ("a", "h", 6, 50), ("b", "h", 6, 40))
    assert budget.payer(60) == "b"


def test_all_that_is_given_back_is_nothing_held():
    budget = Budget(10)
    hold(budget, ("a", "h", 5, 0), ("b", "i", 6, 0), ("a", "h", 0, 1), ("b", "i", 0, 1), ("c", "i", 0, 1))
    assert budget.held_bytes == 0
    assert budget.payer(2) is None


def test_a_holding_that_goes_over_to_another_host_leaves_its_former_one():
    budget = Budget(10)
    budget.hold("connection", "load balancer", 8, 0.0)
    budget.hold("connection", "peer", 12, 1.0)
    assert (budget.held_bytes, budget.payer(2.0)) == (12, "connection")
    budget.hold("connection", "peer", 0, 2.0)
    assert (budget.held_bytes, budget.payer(2.0)) == (0, None)
