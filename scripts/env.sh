# Sourced by the scripts: where tools are kept, and what the tests may need.
# BLOBD_CACHE moves the folder; it is outside the clone unless told otherwise.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export BLOBD_CACHE="${BLOBD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/blobd-tools}"
mkdir -p "$BLOBD_CACHE/bin"
export PATH="$BLOBD_CACHE/bin:$PATH"
if [ -z "${BLOBD_FIXTURES:-}" ] && [ -d ../shared/fixtures ]; then
  BLOBD_FIXTURES=$(cd ../shared/fixtures && pwd)
  export BLOBD_FIXTURES
fi

# modules prints the folder of every module of the tree, the root's first. Those
# of integration/servers only build a foreign server, once: see scripts/tools.
modules() { find . -name go.mod -not -path './.cache/*' -not -path '*/testdata/*' -not -path './integration/servers/*' -exec dirname {} + | sort; }

# step prints what begins, and how long the run has taken.
step() { printf '\n== %s (after %ds)\n' "$1" "$SECONDS"; }
