# shellcheck shell=bash
# What env/lab, env/test and env/run share: setting the machine up, and entering the environment.
# Sourced by them, never run. Everything it says goes to standard error: standard output belongs to the command.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
# Never the first python3 on PATH: the system's BCC belongs to the system's Python.
system_python=/usr/bin/python3
state=${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/xdp-lab

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "xdp-lab: $*"
    exit 1
}

# --- Set-up -----------------------------------------------------------------------------------------------------------

# set_up lab|test: makes everything ready; returns at once where it is. Two at once wait for each other, and one that
# was interrupted is mended by the next.
set_up() {
    local what=$1
    ! is_ready "$what" || return 0
    (
        # The lock is on a folder that is there anyway: no lock file is left behind.
        flock --nonblock 9 || {
            say "Another set-up is at work here: waiting for it …"
            flock 9
        }
        is_ready "$what" || make_ready "$what"
    ) 9<"$root/env"
}

make_ready() {
    local what=$1 start=$SECONDS
    log=$(mktemp "${TMPDIR:-/tmp}/xdp-lab-setup.XXXXXX")
    say "Setting up in $root (log: $log)"
    has_apt || explain_packages "$what"
    step 1 "System packages" install_packages "$what"
    check_python
    step 2 "Virtual environment" make_venv
    step 3 "Python packages" install_python_packages "$what"
    step 4 "BCC and labkit" link_bcc_and_labkit
    build_gate_library >>"$log" 2>&1
    step 5 "Bytecode" write_bytecode
    # Last of all: what has no stamp is not finished. One that says more than is asked for stays.
    has_python_packages "$what" || echo "$(venv_key) $what" >"$venv/stamp"
    rm -f "$log"
    say "Set up in $((SECONDS - start)) s."
}

# Whether the set-up for lab|test is complete. This is all that a second run pays for: keep it quick.
is_ready() {
    has_python_packages "$1" && has_bcc && has_gate_library && [ -z "$(missing_packages "$1")" ]
}

# step NUMBER NAME COMMAND…: runs one step with its output in the log, and says how long it took.
step() {
    local number=$1 name=$2 start=$SECONDS ticker status=0
    shift 2
    printf '[%s/5] %s …' "$number" "$name" >&2
    tick "$start" "$BASHPID" 9<&- & # the lock must not outlive the set-up
    ticker=$!
    # In a child, so that `set -e` holds inside: it would not in a condition.
    set +e
    (
        set -e
        "$@"
    ) >>"$log" 2>&1 </dev/null
    status=$?
    set -e
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    if [ "$status" -eq 0 ]; then
        say " done in $((SECONDS - start)) s"
    else
        say " failed after $((SECONDS - start)) s"
        tail -n 20 "$log" | sed 's/^/    /' >&2
        fail "$name: see above, or the whole log in $log. Mend it and run the same command again."
    fi
}

# tick START PARENT: a sign of life every ten seconds, as long as the parent lives.
tick() {
    # A sleep that is left over must not keep a pipe on our output streams open.
    while sleep 10 >/dev/null 2>&1 && kill -0 "$2" 2>/dev/null; do printf ' %s s …' "$((SECONDS - $1))" >&2; done
}

# --- System packages --------------------------------------------------------------------------------------------------

# The lists of packages for lab|test|fresh, joined.
package_lists() {
    local lists=(apt.txt)
    [ "$1" = lab ] || lists+=("apt-$1.txt")
    (cd "$root/env" && cat "${lists[@]}")
}

has_apt() {
    [ -x "$(command -v apt-get)" ] && [ -x "$(command -v dpkg-query)" ] \
        && (. /etc/os-release && [[ " ${ID:-} ${ID_LIKE:-} " =~ \ (debian|ubuntu)\  ]])
}

# The packages for lab|test|fresh that are not installed, one a line. Nothing where dpkg doesn't rule.
missing_packages() {
    has_apt || return 0
    local wanted
    mapfile -t wanted < <(package_lists "$1" | sed -E 's/#.*//; s/[[:space:]]+//g; /^$/d')
    comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
        <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/ installed$//p' | sort)
}

install_packages() {
    local missing
    mapfile -t missing < <(missing_packages "$1")
    [ "${#missing[@]}" -gt 0 ] || return 0
    echo "missing: ${missing[*]}"
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "Installing them needs root, and there is no sudo here. As root, once: apt-get install ${missing[*]}"
        return 1
    fi
    # A stale list is better than none: without a network the packages may still lie in apt's cache.
    apt_get update || echo "apt-get update failed; trying with the lists at hand"
    apt_get install "${missing[@]}"
}

apt_get() {
    local action=$1
    shift
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "$action" --yes --quiet \
        --option Acquire::Retries=3 --option DPkg::Lock::Timeout=300 --option Dpkg::Use-Pty=0 \
        --no-install-recommends "$@"
}

# sudo asks for a password on the terminal, whatever the standard streams are.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# On a distribution we don't know we can't install: say what is needed and go on, it may be there under another name.
explain_packages() {
    say "This is neither Debian nor Ubuntu: please see to it yourself that these are installed (Debian's names):"
    package_lists "$1" | sed -E '/^#/d; /^$/d; s/^/    /' >&2
}

# --- Python -----------------------------------------------------------------------------------------------------------

# The system Python's name with its version (python3.11): a file name, so no Python need start to tell.
python_name() { basename "$(readlink -f "$system_python")"; }

# What a virtual environment is made for. Change any of it, and it's made anew.
venv_key() {
    { echo "$root $(python_name)" && cat "$root/env/lock.txt" "$root/env/lock-test.txt"; } | sha256sum | cut -c 1-64
}

# Whether the packages for lab|test are in. The tests' are the lab's and more.
has_python_packages() {
    local key what
    { read -r key what <"$venv/stamp"; } 2>/dev/null || return 1
    [ "$key" = "$(venv_key)" ] && [[ $what = "$1" || $what = test ]] && [ -x "$venv/bin/python" ]
}

check_python() {
    [ -x "$system_python" ] || fail "there is no $system_python"
    "$system_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        || fail "$("$system_python" --version) is too old: the lab needs 3.11 (Debian 12, Ubuntu 24.04) or newer"
}

make_venv() {
    if has_python_packages lab; then
        return
    fi
    rm -rf "$venv"
    "$system_python" -m venv "$venv"
}

install_python_packages() {
    local lock=$root/env/lock.txt
    [ "$1" = lab ] || lock=$root/env/lock-test.txt
    ! has_python_packages "$1" || return 0
    rm -f "$venv/stamp"
    # pip, as it keeps to the index, proxy and certificates that this machine's owner gave it.
    # The lock is complete and hashed: nothing to resolve, nothing to trust. For bytecode see write_bytecode.
    PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 "$venv/bin/pip" install \
        --no-deps --no-compile --require-hashes --requirement "$lock"
}

site_packages() { echo "$venv/lib/$(python_name)/site-packages"; }

has_bcc() { [ -e "$(site_packages)/bcc/libbcc.py" ]; }

# Where the system's BCC lives. Python is asked, but not to import it, and PyPI's `bcc` (another thing) has no libbcc.py.
system_bcc() {
    "$system_python" -I - <<'PYTHON'
import pathlib, sys
found = [p for p in (pathlib.Path(d, "bcc") for d in sys.path) if (p / "libbcc.py").is_file()]
sys.exit("The system's Python has no BCC (Debian: python3-bpfcc; elsewhere: python3-bcc, bcc)") if not found else print(found[0])
PYTHON
}

link_bcc_and_labkit() {
    local bcc site
    bcc=$(system_bcc)
    site=$(site_packages)
    # This one package alone: nothing else of the system's Python is to leak in.
    ln -sfn "$bcc" "$site/bcc"
    # labkit runs from the checkout: an edit is seen at once, and no build tool is needed.
    echo "$root" >"$site/labkit.pth"
    write_labkit_command >"$venv/bin/labkit"
    chmod +x "$venv/bin/labkit"
}

# The library that leads BCC to a sandbox's gate (see env/gate.c), beside a copy of what it was built from.
has_gate_library() { cmp -s "$root/env/gate.c" "$venv/lib/xdp-lab-gate.c" || ! command -v cc >/dev/null; }

# Without a C compiler all works but BCC's own loader in a sandbox: `labkit doctor` says so.
build_gate_library() {
    command -v cc >/dev/null || return 0
    cc -O2 -Wall -Wextra -shared -fPIC -o "$venv/lib/xdp-lab-gate.so.new" "$root/env/gate.c" -ldl
    mv -f "$venv/lib/xdp-lab-gate.so.new" "$venv/lib/xdp-lab-gate.so"
    cp "$root/env/gate.c" "$venv/lib/xdp-lab-gate.c"
}

# Bytecode of what a lesson imports, and of nothing else: a tenth of what there is. Else each process of a user who may
# not write here would compile it anew, a second and more at each start. The lab works without it.
write_bytecode() {
    env -u PYTHONDONTWRITEBYTECODE -u PYTHONPYCACHEPREFIX "$venv/bin/python" -c '
import importlib
for name in ("jupyterlab.labapp", "ipykernel.kernelapp", "scapy.layers.inet6", "labkit.lab", "labkit.lesson", "labkit.widgets", "labkit.sandbox.run"):
    importlib.import_module(name)
' || true
}

# Shell and Python at once, as pip does it: a path with a space in it can't stand in a #! line.
write_labkit_command() {
    cat <<COMMAND
#!/bin/sh
'''exec' "$venv/bin/python" "\$0" "\$@"
' '''
import sys
from labkit.cli import main
sys.exit(main())
COMMAND
}

# --- Environment ------------------------------------------------------------------------------------------------------

# Puts the lab's Python first, has ip, tc and nft found by a user, too, and keeps Jupyter away from the user's own settings: it reads env/jupyter, and writes to
# a private folder of the lab.
enter_environment() {
    unset PYTHONHOME PYTHONPATH
    export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH:/usr/sbin:/sbin PYTHONNOUSERSITE=1
    export JUPYTER_CONFIG_PATH=$root/env/jupyter JUPYTER_PATH=$root/env/jupyter JUPYTER_PREFER_ENV_PATH=1
    export JUPYTER_CONFIG_DIR=$state/jupyter/config JUPYTER_DATA_DIR=$state/jupyter/data
    export JUPYTER_RUNTIME_DIR=${runtime:-$state/jupyter/runtime} IPYTHONDIR=$state/ipython
    export JUPYTERLAB_SETTINGS_DIR=$state/jupyter/settings JUPYTERLAB_WORKSPACES_DIR=$state/jupyter/workspaces
    [ -d "$state" ] || (umask 077 && mkdir -p "$state")
}
