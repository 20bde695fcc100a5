# What spark-submit reads before it starts, with SPARK_CONF_DIR=conf.
#
# Spark's web page and its driver listen at this address alone. Its default is all addresses of the machine, and the page
# asks nobody who he is. For executors on other machines set SPARK_LOCAL_IP to an address that they reach.
SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"
