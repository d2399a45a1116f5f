#!/bin/sh
# Makes a virtual environment with pip where `python3 -m venv` cannot, since Debian keeps ensurepip in a package of its
# own (python3-venv). Needs python3 and apt, but neither root nor any change of the system: the wheel of pip is taken
# out of a Debian package that is only downloaded.
#   deploy/bootstrap.sh FOLDER
set -eu

venv=${1:?usage: deploy/bootstrap.sh FOLDER}

explain() {
    echo "bootstrap: $1" >&2
    echo "bootstrap: install Debian's python3-venv (apt-get install python3-venv), then run make again" >&2
    exit 1
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || explain "Python 3.11 or newer is needed"
python3 -m venv --clear --without-pip "$venv" || explain "python3 cannot make a virtual environment"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"

quiet_apt() {
    apt-get -qq -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User= \
        -o Debug::NoLocking=1 "$@"
}

command -v apt-get >/dev/null || explain "there is no apt-get here"
quiet_apt update || explain "the package lists cannot be read"
(cd "$work" && quiet_apt download python3-pip-whl) || explain "python3-pip-whl cannot be downloaded"
dpkg-deb -x "$work"/python3-pip-whl_*.deb "$work/root"
wheel=$(ls "$work"/root/usr/share/python-wheels/pip-*.whl)
"$venv/bin/python" "$wheel/pip" install --quiet --disable-pip-version-check pip
