#!/bin/sh
# Pins the images of a compose file: asks the registries for the digest of each `${NAME_IMAGE:-image:tag}` and writes
# NAME_IMAGE=image:tag@sha256:... into an environment file. Usage: digests.sh docker/compose.yaml docker/.env
set -eu
compose=$1
target=$2
[ -f "$target" ] || { echo "error: there is no $target: copy docker/example.env there first" >&2; exit 1; }
scratch=$(mktemp "$target.XXXXXX")
trap 'rm -f "$scratch"' EXIT
grep -v '^[A-Z]*_IMAGE=' "$target" > "$scratch" || true
sed -n 's/.*\${\([A-Z]*_IMAGE\):-\([^}]*:[^}]*\)}.*/\1 \2/p' "$compose" | sort -u | while read -r name image; do
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}') || exit 1
    case $digest in
        sha256:????????????????????????????????????????????????????????????????) ;;
        *) echo "error: $image: the registry gave no digest: $digest" >&2; exit 1 ;;
    esac
    echo "$name=$image@$digest" >> "$scratch"
    echo "$image $digest"
done
chmod 600 "$scratch"
mv "$scratch" "$target"
trap - EXIT
