#!/bin/sh
# Builds Citus from its public source against Debian's PostgreSQL, into a directory of its own: nothing of the system's
# installation is changed. The directory then holds a whole server, as Debian's programs find their files relative to
# where they are.
#
# Usage: build.sh DIRECTORY
#
#   CITUS_SOURCE    address of the source's git repository, or the path of a copy
#   CITUS_VERSION   tag to build
#   PG_MAJOR        major version of the server; `postgresql-server-dev-N` must be installed
#
# It needs: postgresql-15 postgresql-server-dev-15 gcc make git libcurl4-openssl-dev libzstd-dev liblz4-dev libssl-dev
#   libkrb5-dev libpam0g-dev libxml2-dev libxslt1-dev libselinux1-dev libreadline-dev zlib1g-dev
set -eu

CITUS_SOURCE=${CITUS_SOURCE:-https://github.com/citusdata/citus.git}
CITUS_VERSION=${CITUS_VERSION:-v13.0.5}
PG_MAJOR=${PG_MAJOR:-15}

if [ $# -ne 1 ]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 64
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
wanted="Citus $CITUS_VERSION for PostgreSQL $PG_MAJOR"
if [ "$(cat "$prefix/version" 2>/dev/null || true)" = "$wanted" ]; then
    echo "$wanted is in $prefix"
    exit 0
fi
pg_config=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
if ! [ -d "$("$pg_config" --includedir-server 2>/dev/null || echo /nowhere)" ]; then
    echo "build.sh: install postgresql-$PG_MAJOR and postgresql-server-dev-$PG_MAJOR first" >&2
    exit 69
fi

source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$CITUS_VERSION" "$CITUS_SOURCE" "$source/citus"
cd "$source/citus"
./configure --quiet --without-libcurl PG_CONFIG="$pg_config"
make -s -j"$(nproc)" extension

# A copy of the server, into which the extension is installed at the paths that it was built for.
rm -rf "$prefix/usr" "$prefix/version"
for directory in "$("$pg_config" --bindir)" "$("$pg_config" --pkglibdir)" "$("$pg_config" --sharedir)"; do
    mkdir -p "$prefix$(dirname "$directory")"
    cp -a "$directory" "$prefix$directory"
done
make -s install-extension DESTDIR="$prefix"
echo "$wanted" > "$prefix/version"
echo "$wanted is in $prefix"
