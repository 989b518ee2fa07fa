#!/bin/sh
# Runs a Citus cluster on loopback, for tests: a coordinator and two workers, each with its data in a folder.
#
# Usage: cluster.sh start|stop|status FOLDER
#
#   CITUS_PREFIX    directory that build.sh has filled
#   CITUS_PORT      port of the coordinator; the workers have the next two
#   PG_MAJOR        major version of the server
#   CITUS_USER      user that runs the servers when this is run as root
#
# The database `postgres` of the coordinator has the extension and knows the workers. Connections need no password, so
# this is no way to run a cluster that holds payments. Neither is `fsync = off`: what a killed process has written stays,
# but not what a machine has that loses its power.
set -eu

PG_MAJOR=${PG_MAJOR:-15}
CITUS_PORT=${CITUS_PORT:-5500}
CITUS_USER=${CITUS_USER:-postgres}

if [ $# -ne 2 ] || [ -z "${CITUS_PREFIX:-}" ]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 64
fi
command=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
bin=$CITUS_PREFIX/usr/lib/postgresql/$PG_MAJOR/bin

as_user() {
    if [ "$(id -u)" = 0 ]; then runuser -u "$CITUS_USER" -- "$@"; else "$@"; fi
}

query() { # port statement
    "$bin/psql" -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$1" -U postgres -d postgres -At -c "$2"
}

start_server() { # name port
    if ! [ -e "$folder/$1/PG_VERSION" ]; then
        as_user "$bin/initdb" -D "$folder/$1" -U postgres -A trust -E UTF8 --no-sync > "$folder/$1.log"
        cat >> "$folder/$1/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $2
unix_socket_directories = ''
shared_preload_libraries = 'citus'
citus.node_conninfo = 'sslmode=disable'
citus.recover_2pc_interval = '5s'
citus.enable_statistics_collection = off
max_connections = 200
fsync = off
CONF
    fi
    if ! as_user "$bin/pg_ctl" -D "$folder/$1" status > /dev/null; then
        as_user "$bin/pg_ctl" -s -w -D "$folder/$1" -l "$folder/$1.log" start
    fi
}

case $command in
start)
    if [ "$(id -u)" = 0 ]; then chown "$CITUS_USER" "$folder"; fi
    for name in coordinator worker1 worker2; do : >> "$folder/$name.log"; done
    if [ "$(id -u)" = 0 ]; then chown "$CITUS_USER" "$folder"/*.log; fi
    start_server coordinator "$CITUS_PORT"
    start_server worker1 $((CITUS_PORT + 1))
    start_server worker2 $((CITUS_PORT + 2))
    for port in "$CITUS_PORT" $((CITUS_PORT + 1)) $((CITUS_PORT + 2)); do
        query "$port" "CREATE EXTENSION IF NOT EXISTS citus" 2> /dev/null
    done
    if [ "$(query "$CITUS_PORT" "SELECT count(*) FROM pg_dist_node")" = 0 ]; then
        query "$CITUS_PORT" "SELECT citus_set_coordinator_host('127.0.0.1', $CITUS_PORT)" > /dev/null
        query "$CITUS_PORT" "SELECT citus_add_node('127.0.0.1', $((CITUS_PORT + 1)))" > /dev/null
        query "$CITUS_PORT" "SELECT citus_add_node('127.0.0.1', $((CITUS_PORT + 2)))" > /dev/null
    fi
    echo "postgresql://postgres@127.0.0.1:$CITUS_PORT/postgres"
    ;;
stop)
    for name in coordinator worker1 worker2; do
        if [ -e "$folder/$name/postmaster.pid" ]; then
            as_user "$bin/pg_ctl" -s -w -m fast -D "$folder/$name" stop || true
        fi
    done
    ;;
status)
    query "$CITUS_PORT" "SELECT citus_version()"
    query "$CITUS_PORT" "SELECT nodename, nodeport, noderole, isactive, shouldhaveshards FROM pg_dist_node ORDER BY nodeport"
    ;;
*)
    echo "cluster.sh: the command is start, stop or status" >&2
    exit 64
    ;;
esac
