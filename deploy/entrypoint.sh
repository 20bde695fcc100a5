#!/bin/bash
# Entry point of the image. It runs any command of the image, and besides the two by which Spark starts the pods of a
# SparkApplication: `driver OPTIONS...` and `executor`, which has its settings in the environment.
set -euo pipefail

here=$(dirname "$(dirname "$(readlink -f "$0")")")

# OpenShift chooses the user. Java's login and Python ask for its name, which /etc/passwd, in a read-only file system,
# does not have.
name_user() {
  local names=${TMPDIR:-/tmp}/passwd
  echo "namesrv:x:$(id -u):$(id -g):namesrv:${HOME:-/tmp}:/usr/sbin/nologin" > "$names"
  export LD_PRELOAD=libnss_wrapper.so NSS_WRAPPER_PASSWD=$names NSS_WRAPPER_GROUP=/etc/group
}

getent passwd "$(id -u)" > /dev/null || name_user

driver() {
  # The settings of the image (conf/spark-defaults.conf, which brings the jars) count too; those of Spark's own win.
  export SPARK_CONF_DIR=$here/conf
  export SPARK_LOCAL_IP=$SPARK_DRIVER_BIND_ADDRESS
  exec spark-submit --deploy-mode client --load-spark-defaults \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
}

executor() {
  local home name options=()
  home=${SPARK_HOME:-$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}
  while read -r name; do  # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
    options+=("${!name}")
  done < <(compgen -e SPARK_JAVA_OPT_ | sort --version-sort)
  exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$here/conf}:$home/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

case ${1:-} in
  driver) driver "${@:2}" ;;
  executor) executor ;;
  *) exec "$@" ;;
esac
