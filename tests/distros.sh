#!/bin/sh
# Runs the commands of the README in bare systems, as a new user would. Each
# system has only the packages of debootstrap, and a clean clone of this
# checkout.
#
#   sudo sh tests/distros.sh                 bookworm, trixie and forky
#   sudo sh tests/distros.sh noble trixie    these releases of Debian or Ubuntu
#
#   --demo           only the first command
#   --tensors        tests/tensors.sh instead of the commands
#   --keep           leaves the systems where they are
#   --folder FOLDER  for the systems, logs and pictures; default: a new folder
#   --isa LIST       then also the quick tests with each of these limits of
#                    oneDNN, such as SSE41,AVX2,AVX512_CORE
#   --cpus LIST      the same for numbers of visible processors, such as 1,2,4
#   --packages LIST  installs these packages before the tests of --isa and
#                    --cpus, such as gstreamer1.0-libav
#
# MIRROR names another mirror. Each system also sees VAE_TEST_DATA, the folder
# with the large vectors, read only. The last line is "N passed, N failed, N
# skipped"; a command in a system counts as one test. Exit status 77: this
# machine cannot make any of the systems.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
}

# The commands are those of the README, word for word.
commands=$(sed -n '/^## Try it/,/^## /s/^\(sh .*\)/\1/p' "$top/README.md")
keep=
folder=
suites=
isas=
cpus=
packages=
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --demo) commands=$(echo "$commands" | head -n 1) ;;
    --tensors) commands='sh tests/tensors.sh' ;;
    --keep) keep=yes ;;
    --folder | --isa | --cpus | --packages)
        value=${2:?$1 needs a value}
        case $1 in
        --folder) folder=$value ;;
        --isa) isas=$(echo "$value" | tr , ' ') ;;
        --cpus) cpus=$(echo "$value" | tr , ' ') ;;
        --packages) packages=$(echo "$value" | tr , ' ') ;;
        esac
        shift
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *) suites="$suites $1" ;;
    esac
    shift
done
: "${suites:=bookworm trixie forky}"
# Checks all names before it makes a system.
for suite in $suites; do
    case $suite in
    *[!a-z]*)
        echo "distros: $suite is no name of a release" >&2
        exit 2
        ;;
    esac
done

# Each further command is a line, too.
[ -z "$packages" ] || commands="$commands
apt-get -q -y install --no-install-recommends $packages"
for isa in $isas; do
    commands="$commands
ONEDNN_MAX_CPU_ISA=$isa meson test -C build --no-rebuild"
done
for n in $cpus; do
    commands="$commands
taskset -c 0-$((n - 1)) meson test -C build --no-rebuild"
done

passed=0
failed=0
skipped=0
per_system=$(echo "$commands" | wc -l)

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] || exit 1
    [ "$passed" != 0 ] || exit 77
    exit 0
}

# skip WHY: skips all systems.
skip() {
    echo "distros: $*"
    # shellcheck disable=SC2086 # words
    set -- $suites
    skipped=$(($# * per_system))
    finish
}

[ "$(id -u)" = 0 ] || skip 'skipped: only root can make a system'
for program in debootstrap unshare git; do
    command -v $program >/dev/null ||
        skip "skipped: $program is not installed"
done
unshare --mount --pid --fork true 2>/dev/null ||
    skip 'skipped: unshare cannot mount anything here, as in many containers'

[ -n "$folder" ] || folder=$(mktemp -d /var/tmp/gst-vae-distros.XXXXXX)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
data=${VAE_TEST_DATA:+$(cd "$VAE_TEST_DATA" && pwd)}

# All mounts and processes are in their own namespaces and end with them, so a
# system can always be removed.
system=
job=
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    [ -z "$job" ] || {
        kill -KILL "$job" 2>/dev/null || true # it waits through others
        wait "$job" 2>/dev/null || true
    }
    [ -z "$system" ] || [ -n "$keep" ] ||
        rm -rf --one-file-system "$system"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# apart LOG COMMAND...: runs the command in its own namespaces, in the
# background: a shell handles no signal while it waits in the foreground.
apart() {
    log=$1
    shift
    unshare --mount --pid --fork --kill-child "$@" >"$log" 2>&1 </dev/null &
    job=$!
    code=0
    wait "$job" || code=$?
    job=
    return $code
}

# vendor SUITE: prints the distribution of the release, if debootstrap knows it.
vendor() {
    case $1 in
    bookworm | trixie | forky | duke | testing | stable | sid) echo debian ;;
    jammy | noble | questing | resolute) echo ubuntu ;;
    *) [ ! -e "/usr/share/debootstrap/scripts/$1" ] || echo debian ;;
    esac
}

# make SUITE: makes the bare system in $system.
make() {
    case $(vendor "$1") in
    debian)
        keys=debian-archive-keyring
        mirror=${MIRROR:-http://deb.debian.org/debian}
        components=main
        like=sid
        ;;
    ubuntu)
        keys=ubuntu-keyring # Debian has it from 13 on
        mirror=${MIRROR:-http://archive.ubuntu.com/ubuntu}
        components=main,universe # as in every Ubuntu that is installed
        like=gutsy
        ;;
    *)
        why='no release of Debian or Ubuntu is known by this name'
        return 77
        ;;
    esac
    keyring=/usr/share/keyrings/$(vendor "$1")-archive-keyring.gpg
    [ -f "$keyring" ] || {
        why="$keyring is missing: install $keys"
        return 77
    }
    # debootstrap does not know releases that are newer than itself. The script
    # of recent releases works for them.
    script=/usr/share/debootstrap/scripts/$1
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/$like
    why="debootstrap failed, see $folder/$1-debootstrap.log"
    apart "$folder/$1-debootstrap.log" \
        debootstrap --variant=minbase --keyring="$keyring" \
        --components="$components" "$1" "$system" "$mirror" "$script" ||
        return 1
    # The names of hosts, such as the mirror, may be known only on this machine.
    why='git clone failed'
    cp -L /etc/hosts /etc/resolv.conf "$system/etc/" &&
        mkdir -p "$system/srv/vectors" &&
        git clone --quiet "$top" "$system/root/gst-vae" || return 1
    # A mirror may be older than its Release file allows.
    why="apt-get update failed, see $folder/$1-apt.log"
    inside "$folder/$1-apt.log" 'apt-get -q update' && return
    grep -q 'Release file .* is expired' "$folder/$1-apt.log" || return 1
    echo "$1: the mirror's Release file has expired; the test accepts it"
    echo 'Acquire::Check-Valid-Until "false";' \
        >"$system/etc/apt/apt.conf.d/old-mirror"
}

# inside LOG COMMAND: runs the command in the clone in $system, with a new
# user's environment.
inside() {
    # shellcheck disable=SC2016 # for the inner shell
    apart "$1" sh -euc '
        system=$1
        data=$2
        mount -t proc proc "$system/proc"
        mount --rbind /sys "$system/sys"
        mount --rbind /dev "$system/dev"
        vectors=
        if [ -n "$data" ]; then
            vectors=/srv/vectors
            mount --bind "$data" "$system$vectors"
            mount -o remount,bind,ro "$system$vectors"
        fi
        exec chroot "$system" env -i HOME=/root TERM=dumb \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${vectors:+VAE_TEST_DATA=$vectors} \
            sh -c "cd /root/gst-vae && $3"' sh "$system" "$data" "$2"
}

# try SUITE: runs the commands one after the other in one system, as a user
# does.
try() {
    began=$(date +%s)
    status=0
    make "$1" || status=$?
    if [ $status = 77 ]; then
        echo "$1: skipped: $why"
        skipped=$((skipped + per_system))
        return
    elif [ $status != 0 ]; then
        tail -n 5 "$folder/$1-debootstrap.log"
        echo "$1: FAILED: $why"
        failed=$((failed + per_system))
        return
    fi
    echo "$1: a bare system after $(($(date +%s) - began)) s"
    rest=$commands
    while [ -n "$rest" ]; do
        command=$(echo "$rest" | head -n 1)
        rest=$(echo "$rest" | tail -n +2)
        log=$folder/$1-$(echo "$command" | tr -cs '[:alnum:]_\n' -).log
        began=$(date +%s)
        if inside "$log" "$command"; then
            result=passed
            passed=$((passed + 1))
        else
            tail -n 20 "$log"
            result=FAILED
            failed=$((failed + 1))
        fi
        echo "$1: $command: $result in $(($(date +%s) - began)) s; see $log"
        tail -n 1 "$log" | sed "s/^/$1:   /"
    done
    picture=$system/root/gst-vae/demo-out/demo.png
    [ ! -f "$picture" ] || cp "$picture" "$folder/$1.png"
}

echo "distros: logs and pictures are in $folder"
for suite in $suites; do
    system=$folder/$suite
    [ ! -e "$system" ] || {
        echo "$suite: skipped: $system is there already"
        system=
        skipped=$((skipped + per_system))
        continue
    }
    try "$suite"
    [ -n "$keep" ] || rm -rf --one-file-system "$system"
    system=
done
finish
