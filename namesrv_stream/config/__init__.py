"""The settings: their meanings and defaults, the sources of their values, and which of them change at run time."""

from namesrv_stream.config.kafka_settings import java_properties, kafka_client_arguments, spark_kafka_options
from namesrv_stream.config.loading import Invocation, as_options, checked_changes, load_settings, log_notes
from namesrv_stream.config.settings import (
    CATALOGUE,
    ConfigBlackListError,
    NamesrvSettings,
    printed_settings,
    to_properties_text,
)

__all__ = [
    "CATALOGUE",
    "ConfigBlackListError",
    "Invocation",
    "NamesrvSettings",
    "as_options",
    "checked_changes",
    "java_properties",
    "kafka_client_arguments",
    "load_settings",
    "log_notes",
    "printed_settings",
    "spark_kafka_options",
    "to_properties_text",
]
