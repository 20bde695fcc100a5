# spark-submit reads this file before it starts, with SPARK_CONF_DIR=conf.
#
# Spark's web page and its driver listen only at this address. Spark's default is all addresses of the machine, and the
# page has no login. For executors on other machines set SPARK_LOCAL_IP to an address that they reach.
SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"
