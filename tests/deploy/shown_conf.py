"""Shows the settings with which spark-submit has started this program."""

import sys

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

settings = SparkConf(_jvm=launch_gateway().jvm)
sys.stdout.writelines(f"{key}={value}\n" for key, value in settings.getAll())
