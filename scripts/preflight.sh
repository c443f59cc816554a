#!/bin/sh
# Prints the Python 3.11 to build .venv with; fails with what to install if that or Java 17 is missing.
# Usage: scripts/preflight.sh [PYTHON]
set -u

fail() {
    printf '%s\n' "lowwater: $1" "  hint: $2" >&2
    exit 1
}

is_311() {
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1
}

python=
if [ -n "${1:-}" ]; then
    is_311 "$1" || fail "PYTHON=$1 is not a Python 3.11" "make PYTHON=/path/to/python3.11 setup"
    python=$1
else
    for candidate in python3.11 python3 python; do
        if is_311 "$candidate"; then python=$candidate; break; fi
    done
    [ -n "$python" ] || fail "no Python 3.11 on PATH (python3.11, python3 and python were tried)" \
        "apt-get install python3.11 python3.11-venv, or make PYTHON=/path/to/python3.11 setup"
fi
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    fail "$python has no venv or ensurepip module" "apt-get install python3.11-venv"

java=java
if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    [ -x "$java" ] || fail "JAVA_HOME is $JAVA_HOME, which has no bin/java" "unset JAVA_HOME, or point it at Java 17"
fi
# "17.0.15" is Java 17, "1.8.0_392" is Java 8
version=$("$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
[ -n "$version" ] || fail "no Java on PATH" "apt-get install openjdk-17-jre-headless"
[ "$version" -ge 17 ] || fail "$java is Java $version; Spark needs 17 or newer" \
    "apt-get install openjdk-17-jre-headless, and point JAVA_HOME at it"

printf '%s\n' "$python"
