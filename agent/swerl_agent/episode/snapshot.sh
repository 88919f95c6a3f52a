# The work tree $2 of a sandbox, as it was handed out and as it is later. Needs git, sed, grep, find and a POSIX sh.
#   check TREE ID           prints `unusable WHY` where no patch can be taken; at once, and leaves nothing
#   take TREE ID            keeps the tree, with all content, in a new folder; prints the folder and the tree's object,
#                           `none WHY` where nothing can be kept, or `unusable WHY`
#   diff TREE FOLDER OBJECT LIMIT [tracked]   prints the git diff from there to the tree as it is now, of at most LIMIT
#                           bytes; with `tracked` new files are not looked for
# Standard error has a line `left out PATH: WHY` for each change that the diff lacks, `head moved` where HEAD has, and
# at its end `diff ended`.
#
# Index, objects, configuration and attributes are those of the folder: the repository in the tree, whatever became of
# it, is only read for the files that it tracks. Files of repositories within the tree are files like others.
LARGE=16384 # blocks of 512 bytes; a new file above it is left out
export LC_ALL=C # grep takes names that are no text of the locale for binary data; awk counts bytes
unset CDPATH GREP_OPTIONS
operation=$1
none() { echo "none $1"; exit 0; }
unusable() { echo "unusable $1"; exit 0; }
cd -P -- "$2" 2>/dev/null || unusable "has no folder $2"
tree=$PWD

clean() {
  env -i PATH="$PATH" HOME="$store" LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$store/.gitconfig" \
    GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 "$@"
}
snapshot_git() { # git with the folder's repository
  clean GIT_DIR="$store/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$store/$index" git --literal-pathspecs "$@"
}
repository_git() { # git with the repository of the current folder, which may be made to wait for ever
  clean $limited git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.quotePath=false "$@" 2>/dev/null
}
limited=
timeout 20 true 2>/dev/null && limited='timeout 20'
left_out() { printf 'left out %s: %s\n' "$1" "$2" >&2; }
# Lines of the input that file $1 has, or has not. To the grep of BusyBox an empty file of patterns matches every line.
listed() { if [ -s "$1" ]; then grep -Fxf "$1"; else cat >/dev/null; fi; }
unlisted() { if [ -s "$1" ]; then grep -vFxf "$1"; else cat; fi; }
object_format() { # of the repository of the current folder; gits that know one alone print the option
  [ "$(repository_git rev-parse --show-object-format)" != sha256 ] || echo --object-format=sha256
}
escape_patterns() { sed 's/[][*?\\!# ]/\\&/g; s,^,/,' "$@"; }

update_tracked() { : >"$store/too_large"; snapshot_git add -u --ignore-errors 2>"$store/errors"; [ $? -lt 2 ] && drop_links; }
update() { # the index from the tree
  cp "$store/exclude" "$store/git/info/exclude"
  snapshot_git ls-files -o --exclude-standard >"$store/others" 2>"$store/errors" || return
  grep '/$' "$store/others" >"$store/nested"
  find . -name .git -prune -o -type f -size +$LARGE -print 2>/dev/null | sed 's,^\./,,' >"$store/large"
  listed "$store/large" <"$store/others" >"$store/too_large"
  escape_patterns "$store/nested" "$store/too_large" >>"$store/git/info/exclude"
  snapshot_git "$@" add -A --ignore-errors 2>>"$store/errors"
  [ $? -lt 2 ] || return
  while IFS= read -r folder; do # and repositories within those
    find "./$folder" -name .git -prune -print 2>/dev/null | sed 's,^\./,,; s,\.git$,,'
  done <"$store/nested" | sort >"$store/repositories"
  while IFS= read -r folder; do
    (cd -- "$folder" && repository_git ls-files -z -co --exclude-standard >"$store/files" &&
      grep -zv '/$' <"$store/files" | snapshot_git "$@" update-index --add --remove --replace -z --stdin) 2>>"$store/errors" ||
      left_out "$folder" "a repository within the tree that cannot be read"
  done <"$store/repositories"
  drop_links
}
drop_links() { # to commits of repositories within the tree: their files are in the index
  snapshot_git ls-files -s | sed -n 's/^160000 [^	]*	//p' | snapshot_git update-index --force-remove --stdin
}

open_store() { # a new folder of this id, removed at the script's end
  command -v git >/dev/null || unusable "has no git"
  for base in "${TMPDIR:-/var/tmp}" /var/tmp /tmp /run /dev/shm; do
    store=$base/.swerl-tree-$1
    mkdir -m 700 "$store" 2>/dev/null && break
    store=
  done
  [ -n "$store" ] || none "no folder can be written outside the work tree"
  trap 'rm -rf "$store"' EXIT # what a baseline that cannot be taken wrote may fill the disk
  trap 'exit 1' HUP INT TERM
  case $store/ in "$tree"/*) none "the work tree holds $base" ;; esac
  printf '[safe]\n\tdirectory = *\n' >"$store/.gitconfig"
  repository_git rev-parse --git-dir >/dev/null || unusable "has no git repository at $tree"
}

take() {
  open_store "$1"
  # The model's own git must work where the tree belongs to another user.
  git rev-parse --git-dir >/dev/null 2>&1 || (
    umask 022
    git config --system --add safe.directory "$tree" || git config --global --add safe.directory "$tree"
  ) 2>/dev/null
  clean git init -q --template= --bare $(object_format) "$store/git" && mkdir -p "$store/git/info" || exit
  printf '[core]\n\tbare = false\n\tquotePath = false\n\tcompression = 0\n\tfsync = none\n[gc]\n\tauto = 0\n' >>"$store/git/config"
  echo '* !text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace' >"$store/git/info/attributes"
  cat "$(repository_git rev-parse --git-path info/exclude)" >"$store/exclude" 2>/dev/null
  repository_git ls-files -s -z | snapshot_git update-index -z --index-info || exit
  drop_links || exit
  # Small files too go into one pack, as this makes large ones do.
  update -c core.bigFileThreshold=1 || { cat "$store/errors" >&2; exit 1; }
  snapshot_git ls-files -oi --exclude-standard >"$store/ignored"
  mv "$store/too_large" "$store/known"
  touch "$store/known"
  repository_git rev-parse -q --verify HEAD >"$store/head"
  printf '%s\n' "$PATH" >"$store/path"
  object=$(snapshot_git write-tree --missing-ok) || exit
  trap - EXIT
  echo "$store $object"
}

keep_smallest() { # of the diff the smallest parts, one per file, that $1 bytes hold
  awk '/^diff --git / { if (n) print size, n; n++; size = 0 } { size += length($0) + 1 } END { print size, n }' \
    "$store/patch" | sort -n | awk -v room="$1" 'BEGIN { print 0 } { sum += $1; if (sum <= room) print $2 }' >"$store/kept"
  awk 'NR == FNR { kept[$1]; next }
    /^diff --git / { on = ++n in kept; path = $0; sub(/.* "?b\//, "", path); sub(/"$/, "", path)
      if (!on) print "left out " path ": the patch has no room for it" > "/dev/stderr" }
    on' "$store/kept" "$store/patch"
}

diff() { # object, limit, `tracked`
  index=end$3
  # With its time: of files that changed in the second of the index, git compares the content.
  cp -p "$store/index" "$store/$index" && "update${3:+_tracked}" || { cat "$store/errors" >&2; exit 1; }
  [ "$(repository_git rev-parse -q --verify HEAD)" = "$(cat "$store/head")" ] || echo "head moved" >&2
  # Ignored files that the agent's git tracks.
  repository_git ls-files -ci --exclude-standard >"$store/forced"
  unlisted "$store/ignored" <"$store/forced" | snapshot_git update-index --add --remove --stdin 2>>"$store/errors"
  # Files that the image ignores, and the agent does not: the content that they had in the image is not kept.
  snapshot_git ls-files | listed "$store/ignored" >"$store/unignored"
  snapshot_git update-index --force-remove --stdin <"$store/unignored"
  cat "$store/forced" "$store/unignored" | listed "$store/ignored" | while IFS= read -r path; do
    [ ! "$path" -nt "$store/known" ] || left_out "$path" "a file that the image holds and ignores"
  done
  while IFS= read -r path; do
    [ "$path" -nt "$store/known" ] || ! grep -qFxe "$path" "$store/known" || continue
    left_out "$path" "$(wc -c <"$path") bytes"
  done <"$store/too_large"
  sed -n "s/^error: unable to index file '*\(.*[^']\)'*$/left out \1: it cannot be read/p
    s/^warning: could not open directory '\(.*\)': \(.*\)/left out \1: \2/p" "$store/errors" >&2
  snapshot_git diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv --src-prefix=a/ --dst-prefix=b/ -M "$1" \
    >"$store/patch" || exit
  if [ "$(wc -c <"$store/patch")" -le "$2" ]; then cat "$store/patch"; else keep_smallest "$2"; fi
  echo 'diff ended' >&2
}

umask 077
index=index
case $operation in
  check) open_store "$3" ;;
  take) take "$3" ;;
  diff)
    store=$3
    [ ! -r "$store/path" ] || IFS= read -r PATH <"$store/path" # that of the image: the agent's may lead to no git
    [ -e "$store/index" ] || { echo "$store was removed" >&2; exit 1; }
    diff "$4" "$5" "${6:-}"
    ;;
esac
