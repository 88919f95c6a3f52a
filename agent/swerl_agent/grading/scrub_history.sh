# Leaves in the repository $1 nothing later than HEAD: neither refs and logs nor, in its object store, what HEAD and the
# index do not reach. Runs in bash before anything of a patch is there.
#
# Prints what it found and did: `clean` (nothing was there), `removed` (the store holds what HEAD reaches, whole),
# `thinned` (of a history of more than $3 objects the commits and tags remain, files and folders only of HEAD, of $2, the
# base commit, and of their parents: packing all of it again takes longer than most tests) or `failed` and why. A store of
# more than $3 objects is clean when it has no later commit.
set -u -o pipefail
tree=$1 base=$2
whole=${3:-100000} # objects up to which the store is compared object by object, and packed again as it is

repo() {
  git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 "$@"
}
fail() { echo "failed: $1"; exit 0; }

forget_refs() {
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
listed() { repo cat-file --batch-all-objects --buffer --batch-check="$1"; }
reached() { repo rev-list --objects --missing=allow-any --all --indexed-objects HEAD; }

nothing_later() {
  [ ! -s "$store/objects/info/alternates" ] || return 1
  if ((total <= whole)); then
    [ "$(listed '%(objectname)' | wc -l)" = "$(reached | wc -l)" ]
  else
    [ "$(listed '%(objecttype)' | grep -c '^commit')" = "$(repo rev-list --count --all HEAD)" ]
  fi
}

keep_the_past() { # whole
  repo repack -a -d -q && rm -f "$store/objects/info/alternates" && repo prune --expire=now
}

keep_the_present() { # and the commits
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
forget_refs || fail "later refs cannot be deleted"
total=$(objects)
nothing_later && echo clean && exit
rm -rf "$store"/objects/info/{commit-graph,commit-graphs,packs} "$store/info/refs" \
  "$store"/objects/pack/{*.keep,*.promisor,*.bitmap,multi-pack-index*}
if ((total <= whole)); then
  keep_the_past && nothing_later && echo removed && exit
else
  keep_the_present && nothing_later && repo status --porcelain > /dev/null && echo thinned && exit
fi
fail "objects that HEAD does not reach remain"
