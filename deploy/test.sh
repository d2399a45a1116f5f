#!/bin/sh
# What `make test` runs: all tests, first those that share the cores, then those that drive real Envoy one at a time.
# Writes build/figures/tests.json and says at the end what was skipped, and why.
set -u
cd "$(dirname "$0")/.."

python=.venv/bin/python
mkdir -p build/figures
rm -f build/tests-*.xml build/figures/tests.json .coverage

if ! command -v redis-server >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing redis-server"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install redis-server; } >/dev/null 2>&1 ||
        echo "test: redis-server cannot be installed; its tests will be skipped"
fi

status=0
$python -m pytest -q -n 2 --dist loadfile -m "not e2e" --cov --cov-report= --junitxml=build/tests-unit.xml || status=1
$python -m pytest -q -m e2e --cov --cov-append --cov-report=term --junitxml=build/tests-e2e.xml || status=1
$python -m coverage json -q -o build/coverage.json || status=1
$python deploy/figures.py build/tests-unit.xml build/tests-e2e.xml build/coverage.json || status=1
exit $status
