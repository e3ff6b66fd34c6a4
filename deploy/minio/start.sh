#!/bin/sh
# Starts a MinIO of one disk whose bucket is there: on a disk, a bucket is a
# folder. MINIO_DATA, MINIO_BUCKET and MINIO_ADDRESS have defaults.
set -eu
data=${MINIO_DATA:-/data}
mkdir -p "$data/${MINIO_BUCKET:-blobd}"
exec minio server --quiet --address "${MINIO_ADDRESS:-:9000}" "$data"
