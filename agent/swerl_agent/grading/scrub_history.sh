# Leaves in the repository $1 nothing later than HEAD: neither refs and logs nor, in its object store, what HEAD and the
# index do not reach. Runs in bash before the patch arrives, with git's configuration as the wrapper sets it.
#
# Prints what it found and did: `clean` (nothing was there), `removed` (the store holds all that HEAD reaches),
# `thinned` (of a history of more than $3 objects the commits and tags remain, files and folders only of HEAD, of $2, the
# base commit, and of their parents: repacking all of it takes longer than most tests) or `failed` and why. A store of
# more than $3 objects is clean when it has no later commit.
set -u -o pipefail
tree=$1 base=$2
repack_limit=${3:-100000} # larger stores are thinned, not compared object by object and repacked

repo() {
  git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 "$@"
}
fail() { echo "failed: $1"; exit 0; }

delete_later_refs() {
  local kept ref
  declare -A kept=()
  while read -r ref; do kept[$ref]=1; done < <(repo for-each-ref --merged HEAD --format='%(refname)')
  # A remote's HEAD names another ref: without no-deref both would be one to git, which then deletes none.
  while read -r ref; do
    [[ -n ${kept[$ref]+x} ]] || printf 'option no-deref\ndelete %s\n' "$ref"
  done < <(repo for-each-ref --format='%(refname)') | repo update-ref --stdin || return
  rm -rf "$store"/{logs,worktrees,rebase-merge,rebase-apply,sequencer,AUTO_MERGE} "$store"/*_HEAD
}

objects() { # of the store, packed and loose; twice where they are both
  local kind number sum=0
  while read -r kind number; do
    case $kind in count: | in-pack:) sum=$((sum + number)) ;; esac
  done < <(repo count-objects -v)
  echo "$sum"
}
list_objects() { repo cat-file --batch-all-objects --buffer --batch-check="$1"; }
reachable_objects() { repo rev-list --objects --missing=allow-any --all --indexed-objects HEAD; }

is_clean() {
  [ ! -s "$store/objects/info/alternates" ] || return 1
  if ((total <= repack_limit)); then
    [ "$(list_objects '%(objectname)' | wc -l)" = "$(reachable_objects | wc -l)" ]
  else
    [ "$(list_objects '%(objecttype)' | grep -c '^commit')" = "$(repo rev-list --count --all HEAD)" ]
  fi
}

repack_reachable() {
  repo repack -a -d -q && rm -f "$store/objects/info/alternates" && repo prune --expire=now
}

thin_history() { # keep all commits and tags, but files only of HEAD, the base commit and their parents
  local old pack
  old=("$store"/objects/pack/pack-*)
  pack=$({
    repo rev-list --all HEAD
    repo for-each-ref --format='%(objectname)'
    repo rev-list --objects --no-walk HEAD HEAD^@ "$base" "$base^@"
    repo ls-files --stage | sed -n 's/^1[02][0-9]* \([0-9a-f]*\).*/\1/p'
  } | cut -d ' ' -f 1 | sort -u | repo pack-objects -q "$store/objects/pack/pack") || return
  for path in "${old[@]}"; do [[ $path == *"$pack"* ]] || rm -f "$path"; done
  rm -rf "$store"/objects/[0-9a-f][0-9a-f] "$store/objects/info/alternates"
}

cd "$tree" && store=$(repo rev-parse --absolute-git-dir) || fail "there is no repository at $tree"
[ "$store" -ef "$(repo rev-parse --git-common-dir)" ] || fail "a linked worktree cannot be cut off from its repository"
delete_later_refs || fail "later refs cannot be deleted"
total=$(objects)
is_clean && echo clean && exit
rm -rf "$store"/objects/info/{commit-graph,commit-graphs,packs} "$store/info/refs" \
  "$store"/objects/pack/{*.keep,*.promisor,*.bitmap,multi-pack-index*}
if ((total <= repack_limit)); then
  repack_reachable && is_clean && echo removed && exit
else
  thin_history && is_clean && repo status --porcelain > /dev/null && echo thinned && exit
fi
fail "objects that HEAD does not reach remain"
