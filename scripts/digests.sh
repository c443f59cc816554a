#!/bin/sh
# Pins the images of a compose file: asks the registries for the digest of each `${NAME_IMAGE:-image:tag}` and writes
# NAME_IMAGE=image:tag@sha256:... into an environment file. Usage: digests.sh docker/compose.yaml docker/.env
set -eu
compose=$1
kept=$2
[ -f "$kept" ] || { echo "error: there is no $kept: copy docker/example.env there first" >&2; exit 1; }
found=$(mktemp "$kept.XXXXXX")
trap 'rm -f "$found"' EXIT
grep -v '^[A-Z]*_IMAGE=' "$kept" > "$found" || true
sed -n 's/.*\${\([A-Z]*_IMAGE\):-\([^}]*:[^}]*\)}.*/\1 \2/p' "$compose" | sort -u | while read -r name image; do
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}') || exit 1
    case $digest in
        sha256:????????????????????????????????????????????????????????????????) ;;
        *) echo "error: $image: the registry gave no digest: $digest" >&2; exit 1 ;;
    esac
    echo "$name=$image@$digest" >> "$found"
    echo "$image $digest"
done
chmod 600 "$found"
mv "$found" "$kept"
trap - EXIT
