"""Fixtures that the league's tests share with the gateway's."""

from tests.gateway.conftest import nobody

__all__ = ["nobody"]
