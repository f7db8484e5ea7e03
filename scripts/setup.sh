#!/bin/sh
# Installs the missing Debian packages of those that a task needs. If none is missing, it ends after a few milliseconds.
#
#   scripts/setup.sh [build|demo|demo-clm|python|format|tidy|fuzz|bench|browser|launchers|wheel|packages|package:NAME]...     (default: build)
#
# Needs root, or sudo without a password. Otherwise it names what is missing and the command that installs it, and
# exits with 2. On a system without dpkg it only prints the names of the packages.
set -eu

packages_of() {
  case $1 in
    build) echo "g++ cmake ninja-build pkg-config libdnnl-dev libhwy-dev libfmt-dev nlohmann-json3-dev libsimdjson-dev" \
                "libxxhash-dev libyaml-cpp-dev libgtest-dev libcairo2-dev zlib1g-dev libzstd-dev libgloo-dev" \
                "libcurl4-openssl-dev libssl-dev" ;;
    demo) echo "curl ca-certificates unzip wordnet-base" ;;
    demo-clm) echo "bible-kjv" ;;
    python) echo "python3 python3-pytest python3-numpy" ;;
    format) echo "clang-format pyflakes3" ;;
    tidy) echo "clang-tidy" ;;
    fuzz) echo "clang libomp-dev python3" ;;
    bench) echo "libbenchmark-dev" ;;
    browser) echo "chromium" ;;
    launchers) echo "openmpi-bin slurmctld slurmd slurm-client munge python3" ;;
    wheel) echo "python3-venv unzip" ;;
    packages) echo "python3 dpkg-dev file patchelf xz-utils" ;;
    package:*) echo "${1#package:}" ;;
    *) echo "setup: no such task: $1 (build, demo, demo-clm, python, format, tidy, fuzz, bench, browser, launchers, wheel, packages, package:NAME)" >&2; exit 2 ;;
  esac
}

[ $# -gt 0 ] || set -- build
wanted=
for task in "$@"; do
  list=$(packages_of "$task")
  wanted="$wanted $list"
done

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "setup: no dpkg here, so packages are not looked for. On Debian or Ubuntu they are called:$wanted"
  exit 0
fi

missing_of() {
  # Only packages that dpkg reports as installed count; all others (unknown, removed, half configured) are
  # missing.
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n' $wanted 2>/dev/null | awk '$2 == "ii" || $2 == "hi" {print $1}')
  for package in $wanted; do
    printf '%s\n' "$installed" | grep -qxF "$package" || printf '%s ' "$package"
  done
}

missing=$(missing_of)
missing=${missing% }
if [ -z "$missing" ]; then exit 0; fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
  else
    echo "setup: missing packages: $missing" >&2
    echo "setup: this user is not root and may not use sudo without a password. Run" >&2
    echo "    sudo apt-get update && sudo apt-get install --no-install-recommends -y $missing" >&2
    echo "and then the same command again." >&2
    exit 2
  fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing $missing"
# DPkg::Lock::Timeout waits for another apt that runs at the same time, as on a machine that has just started. A failed
# update is not an error: the package lists may exist already, and only one of several repositories may be unavailable.
quiet() {
  $as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -qq -o DPkg::Lock::Timeout=600 \
    -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false -o Acquire::Retries=3 "$@" </dev/null >>"$log" 2>&1
}
explain() {
  tail -n 12 "$log" | sed 's/^/    /' >&2
  if grep -qE 'Could not resolve|Could not connect|Temporary failure|(Unable|Failed) to fetch|timed out|Unable to locate' "$log"; then
    echo "setup: this looks like no way to the package mirror: check the network, the proxy, /etc/apt/sources.list*" >&2
  fi
}
quiet update || true
# shellcheck disable=SC2086
if ! quiet install -y $missing; then
  echo "setup: apt-get could not install them. Its last lines:" >&2
  explain
  echo "setup: to see it in full: ${as_root:+sudo }apt-get update && ${as_root:+sudo }apt-get install $missing" >&2
  exit 2
fi
missing=$(missing_of)
if [ -n "$missing" ]; then
  echo "setup: apt-get ended well, but these are still missing: $missing" >&2
  exit 2
fi
