"""A Kafka that lets this client write and not look at settings."""

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from namesrv_stream.kafka.topic import AdminClient, ensure_topic
from namesrv_stream.local.kafka import LocalKafka
from tests.system.test_gateway_writes import Site

pytestmark = pytest.mark.system


class GuardedKafka(LocalKafka):
    def _server_properties(self):
        return super()._server_properties() + (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            "allow.everyone.if.no.acl.found=true\n"
        )


@pytest.fixture
def guarded(tmp_path):
    with GuardedKafka(tmp_path / "kafka") as node:
        yield node


def test_a_topic_whose_settings_may_not_be_seen_is_written_all_the_same(guarded, topic, tmp_path, caplog):
    kafka = {"bootstrap_servers": [guarded.bootstrap_servers]}
    ensure_topic(kafka, topic)
    everybody = {"principal": "User:*", "host": "*", "permission_type": ACLPermissionType.ALLOW}
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    rights = [ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE]
    admin = AdminClient(bootstrap_servers=guarded.bootstrap_servers)
    admin.create_acls([ACL(operation=each, resource_pattern=pattern, **everybody) for each in rights])
    admin.close()
    (warning,) = ensure_topic(kafka, topic).warnings
    assert "grant DescribeConfigs" in warning
    with Site(guarded, topic, tmp_path) as site:
        site.start_gateway()
    assert "grant DescribeConfigs" in caplog.text
