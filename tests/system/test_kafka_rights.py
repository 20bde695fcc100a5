"""A Kafka that lets this client write and not look at settings."""

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.kafka.election import group_of
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.doctor.kafka_checks import JOB_RIGHTS, check_kafka
from namesrv_stream.tools.local.kafka_server import LocalKafka
from tests.system.sites import Site
from tests.waiting import until

pytestmark = pytest.mark.system


class GuardedKafka(LocalKafka):
    def _server_properties(self):
        return super()._server_properties() + (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            "allow.everyone.if.no.acl.found=true\n"
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with GuardedKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def grant(kafka, kind, name, rights, principal="User:*"):
    """Give rights on a topic or a group; everybody else loses those that nobody has given.

    Kafka answers before they hold.
    """
    given = {"principal": principal, "host": "*", "permission_type": ACLPermissionType.ALLOW}
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.create_acls([ACL(operation=each, resource_pattern=ResourcePattern(kind, name), **given) for each in rights])
    admin.close()


def test_a_topic_whose_settings_may_not_be_seen_is_written_all_the_same(guarded, topic, tmp_path, caplog):
    kafka = {"bootstrap.servers": guarded.bootstrap_servers}
    ensure_topic(kafka, topic)
    grant(guarded, ResourceType.TOPIC, topic, [ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE])
    until(lambda: ["grant DescribeConfigs" in each for each in ensure_topic(kafka, topic).warnings] == [True])
    with Site(guarded, topic, tmp_path) as site:
        site.start_gateway()
    assert "grant DescribeConfigs" in caplog.text


def test_doctor_finds_that_a_job_may_not_take_part_in_the_election(guarded, topic, tmp_path):
    ensure_topic({"bootstrap.servers": guarded.bootstrap_servers}, topic)
    given = {"kafka.bootstrap.servers": guarded.bootstrap_servers, "kafka.topic": topic, "delta.root": str(tmp_path)}
    settings = NamesrvSettings.model_validate(given)
    group = group_of(topic, Root(settings.delta_root).hadoop_url)

    def election():
        return next(each for each in check_kafka(settings, JOB_RIGHTS, is_candidate=True) if each.check == "election")

    assert election().state == "ok"
    grant(guarded, ResourceType.GROUP, group, [ACLOperation.DESCRIBE, ACLOperation.READ], principal="User:somebody")
    until(lambda: (election().state, group in election().found) == ("failed", True))
    grant(guarded, ResourceType.GROUP, group, [ACLOperation.DESCRIBE])
    assert election().state == "failed"
    grant(guarded, ResourceType.GROUP, group, [ACLOperation.READ])
    until(lambda: election().state == "ok")
