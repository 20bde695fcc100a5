"""Digests of registrations."""

from tests.build import registration

OWN = registration(topics="AB", counter=1, filter_server_list=["f:1"], channel_id="g1/1", token="own")
