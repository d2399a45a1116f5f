#!/bin/sh
# What `make test` runs: all tests, first those that share the cores, then those that drive real Envoy one at a time.
# Writes build/figures/tests.json and says at the end what was skipped, and why. Its status is that of the summary.
set -u
cd "$(dirname "$0")/.."

python=.venv/bin/python
mkdir -p build/figures
rm -f build/tests-*.xml build/figures/tests.json .coverage

missing=
for program in redis-server curl; do
    command -v $program >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing$missing"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install $missing; } >/dev/null 2>&1 ||
        echo "test: not all of$missing can be installed; the tests that need it will be skipped"
fi

# 0 all passed, 1 some failed; anything else is pytest's own trouble, which no second try mends.
unit=0
e2e=0
$python -m pytest -q -n 2 --dist loadfile -m "not e2e" --cov --cov-report= --junitxml=build/tests-unit.xml || unit=$?
$python -m pytest -q -m e2e --cov --cov-append --cov-report=term --junitxml=build/tests-e2e.xml || e2e=$?
[ $unit -le 1 ] && [ $e2e -le 1 ] || exit 1
$python -m coverage json -q -o build/coverage.json

# What failed is tried once more, alone: a shared machine stalls now and then for longer than Envoy waits for an answer.
# A fault of the product fails twice. The summary names what needed its second try, so that it is not forgotten.
again=
if [ $unit = 1 ] || [ $e2e = 1 ]; then
    echo "test: trying what failed once more"
    $python -m pytest -q --last-failed --last-failed-no-failures none --junitxml=build/tests-again.xml
    again=build/tests-again.xml
fi
$python deploy/figures.py build/coverage.json build/tests-unit.xml build/tests-e2e.xml $again
