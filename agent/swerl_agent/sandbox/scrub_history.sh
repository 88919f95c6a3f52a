# Leaves in the repository $1 only what HEAD reaches; prints commits, objects before, objects after.
# Needs git and a POSIX sh.
cd -- "$1" || exit 1
if ! command -v git >/dev/null; then
  [ -e .git ] || { echo 0 0 0; exit 0; }
  echo "there is a repository but no git in the image" >&2
  exit 1
fi
# The repository's own settings must not run anything here, and its owner may be another user. Gits before 2.38 take
# safe.directory from files alone, those before 2.32 find a file by HOME alone.
home=${sw_dir:-/tmp}/scrub-$$
mkdir -m 700 "$home" && printf '[safe]\n\tdirectory = *\n' >"$home/.gitconfig" || exit 1
trap 'rm -rf "$home"' EXIT
git() {
  HOME=$home GIT_CONFIG_GLOBAL=$home/.gitconfig command git -c core.hooksPath=/dev/null -c core.fsmonitor=false \
    -c core.logAllRefUpdates=false -c gc.auto=0 "$@"
}
objects() { git cat-file --batch-all-objects --batch-check='%(objectname)' | wc -l; }
reachable_objects() { git rev-list --objects --all --indexed-objects | wc -l; }
fail() { echo "$1" >&2; exit 1; }
newline='
'

git_dirs=$(git rev-parse --absolute-git-dir --git-common-dir 2>/dev/null) || { echo 0 0 0; exit 0; }
store=${git_dirs%%$newline*}
[ "$store" -ef "${git_dirs#*$newline}" ] || fail "a linked worktree cannot be cut off from its repository"
head=$(git rev-parse --verify -q HEAD) || fail "no commit is checked out"
branch=$(git symbolic-ref -q HEAD) || branch=refs/heads/main
commits=$(git rev-list --count "$head") before=$(objects)
after=$before

if [ -s "$store/objects/info/alternates" ]; then # copy the needed borrowed objects, drop the rest
  git repack -a -d -q && rm -f "$store/objects/info/alternates" || fail "borrowed objects cannot be copied"
  after=$(objects)
fi
sections=$(git config --local --name-only --get-regexp '^(remote|branch)\.')
[ -z "$sections" ] || for section in $(echo "$sections" | sed 's/\.[^.]*$//' | sort -u); do
  git config --local --remove-section "$section"
done
cd "$store" || exit 1
rm -rf logs refs packed-refs info/refs info/grafts worktrees *_HEAD rebase-merge rebase-apply sequencer AUTO_MERGE \
  objects/info/commit-graph objects/info/commit-graphs objects/info/packs
mkdir -p refs/heads refs/tags
cd -- "$1" || exit 1
git update-ref --no-deref "$branch" "$head" && git symbolic-ref HEAD "$branch" || fail "HEAD cannot be set"
if [ "$after" -ne "$(reachable_objects)" ]; then
  rm -f "$store"/objects/pack/*.keep "$store"/objects/pack/*.promisor "$store"/objects/pack/*.bitmap \
    "$store"/objects/pack/multi-pack-index*
  git repack -a -d -q && git prune --expire=now || fail "objects cannot be repacked"
  rm -rf "$store/objects/info/packs" "$store/info/refs"
  after=$(objects)
  [ "$after" -eq "$(reachable_objects)" ] || fail "objects remain that HEAD does not reach"
fi

[ "$(git for-each-ref --format='%(refname) %(objectname)')" = "$branch $head" ] || fail "other refs remain"
[ "$(git rev-list --count --all)" -eq "$commits" ] || fail "the history of HEAD changed"
[ ! -e "$store/logs" ] || fail "reflogs remain"
echo $commits $before $after
