# The work tree of a grading Pod before anything of the patch runs: test files, the patch, what it may not change.
#
# Read by `grade.sh`, whose variables it uses: nonce, base, tree, root, scratch, payload, globs and the like.

# What the repository holds that is later than HEAD goes, in refs, logs and objects: the fix may be there.
scrub_history() {
  local outcome
  outcome=$(timeout 120 bash "$payload/scrub_history.sh.000" "$tree" "$base" 2>> "$scratch/git") ||
    outcome="failed: it took more than 120 s"
  printf 'swerl-grading %s scrubbed %s\n' "$nonce" "$outcome"
}

# Sets the repository of our own to the tree as the image has it: what git knows, changed or not, byte by byte. What
# differs from the image's commit is reported.
take_baseline() {
  local own=$scratch/image store path number=0 format=()
  [[ $(images rev-parse --show-object-format 2> /dev/null) != sha256 ]] || format=(--object-format=sha256)
  store=$(images rev-parse --git-common-dir) && store=$(cd "$store" && pwd) || return
  git init -q --template= --bare "${format[@]}" "$own" && mkdir -p "$own/info" || return
  printf '%s/objects\n' "$store" > "$own/objects/info/alternates"
  printf '[core]\n\tbare = false\n[user]\n\tname = image\n\temail = image\n' >> "$own/config"
  echo '* !text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace' > "$own/info/attributes"
  images ls-files -s -z | repo update-index -z --index-info || return
  repo update-index -q --really-refresh # so that only what changed is written
  repo add -u || return
  repo update-ref HEAD "$(repo commit-tree -m image "$(repo write-tree --missing-ok)")" || return
  { repo diff --name-only --no-renames "$(images rev-parse HEAD)" HEAD && images ls-files -o --exclude-standard; } |
    while IFS= read -r path && ((number++ < 20)); do printf 'swerl-grading %s dirty %q\n' "$nonce" "$path"; done
}

# The files of the task's tests, as the image has them and with the task's own changes to them.
report_test_files() {
  local folder=$scratch/tests pattern path kept kind shown
  mkdir -p "$folder/before"
  : > "$scratch/altered"
  (
    while IFS= read -r pattern; do
      if [[ $pattern == /* ]]; then
        [[ ! -e $pattern ]] || find "$pattern" -name '*.py' -type f
      else
        "${pinned[0]}" "${pinned[@]:2}" ls-files -- ":(glob)$pattern"
      fi
    done < "$scratch/targets" | sort -u | grep -x '[A-Za-z0-9_./+@=,-]*' | head -n 60 > "$folder/names"
    while IFS= read -r path; do
      kept=$folder/before/$path
      mkdir -p "${kept%/*}" 2> /dev/null || continue
      if [[ $path == /* ]]; then cat "$path"; else images show "HEAD:$path"; fi > "$kept"
    done < "$folder/names"
    cp -a "$folder/before" "$folder/after"
    cd "$folder/after" && GIT_CEILING_DIRECTORIES=$folder git apply --whitespace=nowarn "$scratch/tests.diff"
  ) > /dev/null 2>&1
  for kind in before after; do
    (cd "$folder/$kind" && find . -type f -size -512k) | sort | while IFS= read -r path; do
      path=${path#./}
      [[ $kind == before ]] || ! cmp -s "$folder/before/$path" "$folder/after/$path" || continue
      grep -qxF -e "$path" -e "/$path" "$folder/names" "$scratch/targets" || continue
      shown=$path
      ! grep -qxF "/$path" "$folder/names" || shown=/$path
      printf 'swerl-grading %s file %s %s\n' "$nonce" "$kind" "$shown"
      [[ $kind != before ]] || printf '%s\n' "$shown" >> "$scratch/altered"
      gzip -1 < "$folder/$kind/$path" | base64 -w 8000
    done
  done
  rm -rf "$folder"
}

# Files for the witness to watch: those of the task's tests and of its test patch, whether they are there yet or not, and
# what git knows in their folders. The top of the tree is no folder of tests.
test_folders() {
  local pattern path folder=$scratch/watched
  while IFS= read -r pattern; do
    if [[ $pattern == *'*'*test* ]]; then
      "${pinned[0]}" "${pinned[@]:2}" ls-files -z -- ":(glob)$pattern"
    elif [[ $pattern != /* && $pattern != *'*'* ]]; then
      printf '%s\0' "$pattern"
      [[ $pattern != */* ]] || printf '%s\0' "${pattern%/*}" >> "$folder"
    fi
  done < "$scratch/targets" > "$scratch/test_files"
  repo apply --numstat -z "$scratch/tests.diff" 2> /dev/null | while IFS=$'\t' read -r -d '' _ _ path; do
    printf '%s\0' "$path"
    [[ $path != */* ]] || printf '%s\0' "${path%/*}" >> "$folder"
  done >> "$scratch/test_files"
  {
    sort -zu "$scratch/test_files"
    [[ ! -s $folder ]] || sort -zu "$folder" | xargs -0 -r "${git[@]}" ls-files -z --
  } | head -c 1000000
}

# What git and patch(1) may not change in the repository's own folder.
git_state() {
  local store
  store=$(images rev-parse --absolute-git-dir) || return
  (cd "$store" && find . \( -path ./objects -o -path ./logs -o -name 'index*' -o -name ORIG_HEAD \) -prune -o \
    ! -type d -exec stat -c '%n %s %Y %Z %f' {} + | sort)
}

# Whether Python, with the folder of the path $1 on sys.path, would import it in the place of a module of its own or of
# the test runner's.
shadows() {
  local folder=./ name=$1
  [[ $1 != */* ]] || folder=./${1%/*}/ name=${1##*/}
  if [[ $name == __init__.* && $folder != ./ ]]; then
    name=${folder%/} folder=${folder%/*/}/
    name=${name##*/}
  elif [[ $name != *.py && $name != *.pyc && $name != *.so && ! -L $1 ]]; then
    return 1
  fi
  [[ -n ${reserved[${name%%.*}]+x} ]] && ! is_package "$folder"
}

# Whether the folder $1 (./ or ./<path>/) was a package before the patch, or is one that the patch made where no file was. A
# folder in another one, new or of a package, counts as one, too, if it has no tests: only theirs would be on sys.path.
is_package() {
  local parent=${1%/*/}/ files
  [[ $1 != ./ ]] || return 1
  files=$(repo ls-tree --name-only HEAD -- "${1#./}")
  if [ -z "$files" ]; then
    [[ -e $1__init__.py || $parent != ./ ]]
  elif [[ -e $1__init__.py ]]; then
    repo cat-file -e "HEAD:${1#./}__init__.py" 2> /dev/null
  else
    [[ $parent != ./ ]] && repo cat-file -e "HEAD:${parent#./}__init__.py" 2> /dev/null &&
      ! grep -Eq '(^|/)test_[^/]*\.py$|_test\.py$' <<< "$files"
  fi
}

compiled() { # path
  [[ $1 == *.pyc || $1 == */__pycache__/* || $1 == __pycache__/* ]]
}

# Compiled modules that git knows go, too: their sources may be others by now, and some are not compared with them.
remove_compiled() {
  local excluded=(':(exclude,glob)**/site-packages/**' ':(exclude).venv' ':(exclude).tox')
  "${git[0]}" "${git[@]:2}" ls-files -z -- ':(glob)**/__pycache__/*.pyc' "${excluded[@]}" | xargs -0 -r rm -f --
}

# Files of tests that some run alters are new in every run, so that their times do not tell one run from another.
place_overlay() {
  local path text
  while read -r path text; do
    [ -n "$path" ] || continue
    [[ $path == /* ]] || path=$root/$path
    base64 -d <<< "$text" | gzip -d > "$path"
  done <<< "$overlay"
  while IFS= read -r path; do
    [[ ! -f $path ]] || printf '%s\0' "$path"
  done < "$scratch/altered" | xargs -0 -r touch --
}

protected() { # path
  local glob found=
  # shellcheck disable=SC2053
  [[ $1 == $any ]] && found=1
  # shellcheck disable=SC2053
  for glob in "${odd[@]}"; do [[ $1 == $glob ]] && found=1; done
  [ -n "$found" ] && ! exempted "$1"
}

exempted() { # path
  local path
  for path in "${exempt[@]}"; do [[ $1 == "$path" ]] && return; done
  return 1
}

# Sets `place` to where a patch that names the path $1 writes: links to folders are followed.
declare -A real=()
resolve_target() {
  local folder=./$1
  folder=${folder%/*}
  until [[ -d $folder ]]; do folder=${folder%/*}; done
  [[ -n ${real[$folder]+x} ]] || real[$folder]=$(cd -P -- "$folder" && pwd)
  place=./$1
  place=${real[$folder]}/${place#"$folder"/}
}

# Whether the path $1 lies in a folder that holds files, and none that git knows. What Python compiled is no file here.
declare -A has_untracked_files=()
in_untracked_folder() {
  local folder=. rest=$1
  while [[ $rest == */* ]]; do
    folder+=/${rest%%/*} rest=${rest#*/}
    [[ -d $folder ]] || return 1
    [[ -n ${has_untracked_files[$folder]+x} ]] ||
      has_untracked_files[$folder]=$(repo ls-files -- "$folder" | read -r || repo ls-files --others -- "$folder" | grep -vm 1 '\.pyc$')
    [ -z "${has_untracked_files[$folder]}" ] || return 0
  done
  return 1
}

file_state() { stat -c '%y %z %s %f' -- "$1" 2> /dev/null; } # of a file: another one when it was written to

# Files of the image that the patch names and git does not know (untracked, ignored, of a repository within) are kept
# aside, since nothing else could put them back. It may add none beside them either, where git knows no file.
declare -A preserved=()
forbidden_additions=()
preserve_untracked() {
  local path place within existing=()
  local -A tracked=()
  for path in "${named[@]}"; do
    resolve_target "$path"
    within=${place#"$root"/}
    ! exempted "$path" && ! exempted "$within" || continue
    if [[ -L $place || -e $place ]]; then
      [[ -d $place && ! -L $place ]] || existing+=("$place")
    elif [[ $within == /* ]] || in_untracked_folder "$within"; then
      forbidden_additions+=("$place")
    fi
  done
  for path in "${existing[@]}"; do [[ $path != "$root"/* ]] || printf '%s\0' "${path#"$root"/}"; done |
    xargs -0 -r "${git[@]}" ls-files -z -- > "$scratch/tracked" || return
  while IFS= read -r -d '' path; do tracked[$root/$path]=1; done < "$scratch/tracked"
  for path in "${existing[@]}"; do [[ -n ${tracked[$path]+x} ]] || preserved[$path]=$(file_state "$path"); done
  for path in "${!preserved[@]}"; do printf '%s\0' ".$path"; done |
    (cd / && xargs -0 -r cp -a --parents -t "$scratch/kept" --)
}

restore_untracked() { # command that gets a note on each
  local path folder rest
  for path in "${!preserved[@]}"; do
    [ "$(file_state "$path")" != "${preserved[$path]}" ] || continue
    "$1" "restored ${path#"$root"/}"
    folder= rest=${path#/}
    while [[ $rest == */* ]]; do # a link in the place of a folder would lead elsewhere
      folder+=/${rest%%/*} rest=${rest#*/}
      [[ -d $folder && ! -L $folder ]] || rm -rf -- "$folder"
    done
    rm -rf -- "$path" && (cd "$scratch/kept" && cp -a --parents -t / -- ".$path") || return
    preserved[$path]=$(file_state "$path")
  done
  for path in "${forbidden_additions[@]}"; do
    [[ -L $path || -e $path ]] || continue
    "$1" "removed ${path#"$root"/}"
    rm -rf -- "$path"
  done
}

clean() { # of what was not there before: images may hold untracked environments and tests
  local path
  while IFS= read -r -d '' path; do
    [[ -n ${untracked[$path]+x} ]] || rm -rf -- "$path"
  done < <(repo ls-files --others -z)
}

# Sets `exclude_options` to options that leave out of a patch the files that it makes and the image has with the same content.
exclude_options=()
exclude_identical() {
  local path pattern folder=$scratch/same existing=() include=()
  for path in "${created[@]}"; do
    [[ -f $path && ! -L $path ]] && existing+=("$path") && include+=("--include=$(escaped_glob "$path")")
  done
  ((${#existing[@]})) && mkdir "$folder" || return 0
  (cd "$folder" && GIT_CEILING_DIRECTORIES=$scratch git apply "${include[@]}" "$scratch/patch.diff") > /dev/null 2>&1
  for path in "${existing[@]}"; do
    ! cmp -s "$folder/$path" "$path" || exclude_options+=("--exclude=$(escaped_glob "$path")")
  done
}
escaped_glob() { sed 's/[][*?\\]/\\&/g' <<< "$1"; }

apply() {
  local ladder=("repo apply --verbose" "repo apply --verbose --3way" "repo apply --verbose --reject"
    "images apply --verbose" # as the attributes of the repository have it
    "patch --batch --forward --fuzz=5 --unified --no-backup-if-mismatch -p1 -i") rung options
  [ -s "$scratch/patch.diff" ] || return 0
  exclude_identical
  for rung in "${ladder[@]}"; do
    options=("${exclude_options[@]}")
    if [[ $rung == patch* ]]; then # it would pass over a binary file
      ! grep -q '^Binary files .* differ' "$scratch/patch.diff" || break
      options=()
    fi
    # shellcheck disable=SC2086
    if ${rung} "${options[@]}" "$scratch/patch.diff" >> "$scratch/git" 2>&1; then
      [[ $rung != images* ]] || rung="git${rung#images} with the attributes of the repository"
      rung=${rung/#repo/git}
      applied "${rung%% --unified*}" && return
    fi
    repo reset -q --hard HEAD
    clean
    restore_untracked : 2>> "$scratch/git" || failed restore_failed 1
  done
  repo apply --check --reverse "$scratch/patch.diff" >> "$scratch/git" 2>&1 && applied before
}

applied() { printf 'swerl-grading %s applied %s\n' "$nonce" "$1"; }

put_back() { # path
  if repo cat-file -e "HEAD:$1"; then repo checkout -q HEAD -- "$1"; else repo rm -q -r -f --cached -- "$1" && rm -rf -- "$1"; fi
}

# What the patch changed and grading left: one path per line, after two times, of the Pod's start and of now, and the work
# tree.
facts() {
  printf '%s\n%s\n%s\n' "$start" "${EPOCHREALTIME/,/.}" "$tree"
  repo diff --name-only --no-renames HEAD
  while IFS= read -r -d '' path; do [[ -n ${untracked[$path]+x} ]] || printf '%s\n' "$path"; done \
    < <(repo ls-files --others -z)
}
